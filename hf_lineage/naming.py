"""Naming: which repository, folder or file a name means, by who gave it.

What the user typed may be a folder or a file; what a repository wrote is a name on the Hub, whatever the working
directory holds, for that may be a checkout whose author chooses what its folders are called.
"""

from __future__ import annotations

from pathlib import Path

from hf_lineage.errors import OptionError, RepositoryError
from hf_lineage.files import is_file, is_folder
from hf_lineage.repo import RepoRef, hub_name, resolve
from hf_lineage.signature import Signature
from hf_lineage.store import load_signature

SUFFIX = ".lineage.safetensors"
"""Of the file that `extract` writes unless it is told otherwise."""


def locate(model: str, local_hub: Path | None = None) -> RepoRef | Signature:
    """Return the repository that a name or folder means, or the signature stored in a file; LineageError if neither."""
    return load_signature(Path(model)) if is_file(model) else resolve(model, local_hub)


def locate_weights(model: str, local_hub: Path | None = None) -> RepoRef:
    """Return the repository that a name or folder means; OptionError for a signature, LineageError if there is none."""
    return with_weights(locate(model, local_hub), model)


def with_weights(source: RepoRef | Signature, model: str) -> RepoRef:
    """Return a repository as it is; raise OptionError for a signature."""
    if isinstance(source, Signature):
        raise OptionError(f"{model} is a signature, which holds no weights to inspect; give the model")
    return source


def locate_base(name: str, local_hub: Path | None = None) -> RepoRef | Signature:
    """Return what a base or a null that the user typed means: a folder or a file only where it is written as a path.

    Raise LineageError if there is none.
    """
    if is_path(name):
        return locate(name, local_hub)
    try:
        return resolve(name, local_hub, folders=False)
    except RepositoryError as error:
        here = is_folder(name) or is_file(name)
        raise RepositoryError(f"{error}; for what is here write ./{name}" if here else str(error)) from None


def is_path(name: str) -> bool:
    """Return whether a base or a null that the user typed means a folder or a file, such as ./x.

    Only what can be no name on the Hub does, and a file that `extract` wrote.
    """
    return hub_name(name) is None or ("/" not in name and name.endswith(SUFFIX) and is_file(name))
