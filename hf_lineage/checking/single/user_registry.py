"""Factorizations of the user's own: drafted from a model, written into a folder, and proved."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from hf_lineage.architecture.drafting import Suggestion, survey
from hf_lineage.architecture.registry import choice, fitting, own_factorizations
from hf_lineage.checking.options import Options
from hf_lineage.checking.source import model_config, one, open_header
from hf_lineage.errors import OptionError, RegistryError, installation
from hf_lineage.files import make_folder, write_output

if TYPE_CHECKING:
    from hf_lineage.running.proof import Proof


def suggest(model: str, options: Options | None = None) -> Suggestion:
    """Return a draft of a factorization for a model that the registry does not list; LineageError if unreadable."""
    repo = one(model, options or Options())
    return survey(repo.name, *open_header(repo))


def write_draft(suggestion: Suggestion, folder: Path) -> Path:
    """Write the draft of a factorization into a folder that `Options.registry` may name, and return the file.

    Raise OptionError if there is no draft, or the file exists already.
    """
    if suggestion.draft is None:
        raise OptionError(f"there is no draft for {suggestion.model}, so there is nothing to write; leave --write out")
    name = re.sub(r"\W", "_", suggestion.classes[0] if suggestion.classes else "draft").lower()[:100]
    file = folder / f"{name}.yaml"
    if file.exists():
        raise OptionError(f"{file} exists and may have been edited; remove it, or name another folder")
    make_folder(folder)
    write_output(file, suggestion.draft.text.encode())
    return file


def prove(folder: Path, model: str, options: Options | None = None) -> Proof:
    """Hold the factorization that a folder has for a model's class against the module of transformers.

    One that is proved is noted in this user's configuration, and reports no longer call it unproved. Raise OptionError
    without the extra `run`, RegistryError if the folder lists no class of the model, NothingToCompare if
    transformers has no such class.
    """
    repo = one(model, options or Options())
    config = model_config(repo)
    named = config.get("architectures")
    classes = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    candidates = [(name, own) for name in classes for own in own_factorizations(folder, name)]
    if not candidates:
        raise RegistryError(
            f"{folder} has no factorization for {', '.join(classes) or 'a model without `architectures`'}; "
            f"`hf-lineage registry --check {repo.typed} --write DIR` drafts one"
        )
    architecture, factorization = fitting(config, candidates)
    try:
        from hf_lineage.running.proof import prove as held_against
    except ImportError as error:
        raise OptionError(f"--prove runs the module of transformers; {installation('run')} ({error})") from None
    proof = held_against(factorization, architecture, config)
    if proof.holds:
        choice.record(factorization, architecture, proof.release)
    return proof
