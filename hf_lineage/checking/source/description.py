"""Description: what `config.json` says about a model, read once, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hf_lineage.architecture.loading import QUANTIZED
from hf_lineage.architecture.registry import Factorization
from hf_lineage.checkpoint.foreign import ForeignModel
from hf_lineage.hub import RepoRef

if TYPE_CHECKING:
    from hf_lineage.architecture.loading import Within

SAVED = frozenset({"_name_or_path", "transformers_version", "_commit_hash"})
"""Settings that say where a model was saved and by what, and nothing about what it computes."""


@dataclass(frozen=True)
class Described:
    """The content of `config.json` about a model, read once."""

    repo: RepoRef
    config: Mapping[str, Any]
    architecture: str
    """The name of the class in `config.json`."""
    factorization: Factorization
    foreign: ForeignModel | None = None
    """The form of a converted model; None for a model as transformers saves it."""
    notes: tuple[str, ...] = ()
    """Sentences about choices of the user that nobody has proved."""
    within: Within | None = None
    """Place of the model in the repository, where it is a part of it or has other names; None for all of it."""
    read_as: str = ""
    """The listed class that it is read as because it has the same tensors; empty where the registry lists its own."""


def holds_others(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration holds one of another model, as that of a model of several parts does."""
    return any(isinstance(value, Mapping) and key not in QUANTIZED for key, value in config.items() if "config" in key)


def named_class(config: Mapping[str, Any]) -> str | None:
    """Return the first class that `config.json` names; None if it names none."""
    named = config.get("architectures")
    return next((name for name in named if isinstance(name, str)), None) if isinstance(named, list) else None


def whole_config(model: Described) -> Mapping[str, Any]:
    """Return the whole of `config.json`, of which a model may have only a part."""
    return model.repo.config() if model.within else model.config
