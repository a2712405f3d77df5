"""The cache: signatures that this machine made of models on the Hub, one file for each path, under the Hub's own cache.

A file counts only if this user wrote it and nobody else can, and if it says of itself what its place says of it.
Whatever else is found there is made again.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hf_lineage.atomic import write_atomically
from hf_lineage.errors import LineageError, SignatureError
from hf_lineage.fingerprint import fingerprint
from hf_lineage.options import Options
from hf_lineage.repo import RepoRef
from hf_lineage.schema import Factorization
from hf_lineage.signature import Signature, by_path, together
from hf_lineage.store import encode, load_signature
from hf_lineage.version import __version__

LARGEST = 2**30
"""Bytes of a file; whoever asks for thousands of probes keeps the signature himself."""
PRIVATE, OTHERS_WRITE = 0o700, stat.S_IWGRP | stat.S_IWOTH


def root() -> Path:
    """Return the folder of what is kept, which may be removed at any time: HF_LINEAGE_CACHE, by default in HF_HOME."""
    from huggingface_hub import constants

    return Path(os.environ.get("HF_LINEAGE_CACHE") or Path(constants.HF_HOME) / "lineage").expanduser()


def find(repo: RepoRef, architecture: str, factorization: Factorization, options: Options) -> Signature | None:
    """Return the signature of a model on the Hub along the paths asked for if it is kept, else None."""
    if not _kept(repo, options):
        return None
    expected = {
        "model": repo.remote,
        "revision": repo.revision,
        "architecture": architecture,
        "factorization": factorization.name,
        "exchangeable": factorization.exchangeable,
        "recipe": options.recipe,
        "made_from": {"factorization": fingerprint(factorization)},
    }
    try:
        found = [_read(_place(repo, factorization, options, path), path, expected) for path in options.paths]
    except (OSError, LineageError):
        return None
    alike = len({(each.width, each.layers) for each in found}) == 1
    return replace(together(found), model=repo.name, made_from={}) if alike else None


def keep(repo: RepoRef, factorization: Factorization, options: Options, whole: Signature) -> None:
    """Keep what all layers of a model on the Hub gave; where that cannot be written, only say so."""
    if not _kept(repo, options):
        return
    said = replace(whole, model=repo.remote or "", made_from={"factorization": fingerprint(factorization)})
    try:
        for path, single in by_path(said).items():
            content, file = encode(single), _place(repo, factorization, options, path)
            if len(content) <= LARGEST:
                root().mkdir(PRIVATE, parents=True, exist_ok=True)
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(file, content)
                file.chmod(PRIVATE & ~stat.S_IXUSR)
    except (OSError, LineageError) as error:
        logging.getLogger(__name__).warning("%s: its signature is not kept: %s", repo, error)


def _kept(repo: RepoRef, options: Options) -> bool:
    """Whether there can be anything: of a folder nobody knows whether it changes, and exact residuals are too large."""
    return repo.remote is not None and repo.revision is not None and options.recipe.probes is not None


def _place(repo: RepoRef, factorization: Factorization, options: Options, path: str) -> Path:
    label = options.recipe.label(path, fingerprint(factorization), __version__)
    model = f"models--{(repo.remote or '').replace('/', '--')}"
    return root() / "signatures" / model / str(repo.revision) / f"{label}.safetensors"


def _read(file: Path, path: str, expected: Mapping[str, object]) -> Signature:
    """What a file holds; SignatureError for one that is not ours or is not what its place says."""
    at = file.lstat()
    ours = not hasattr(os, "geteuid") or (at.st_uid == os.geteuid() and not at.st_mode & OTHERS_WRITE)
    if not ours or not stat.S_ISREG(at.st_mode) or at.st_size > LARGEST:
        raise SignatureError(f"{file} is not ours")
    found = load_signature(file)
    if tuple(found.paths) != (path,) or any(getattr(found, name) != value for name, value in expected.items()):
        raise SignatureError(f"{file} is not what its place says")
    return found
