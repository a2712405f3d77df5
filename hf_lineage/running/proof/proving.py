"""Prove: whether a factorization is what the class of a model computes, in the form that its `config.json` asks for."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import transformers

from hf_lineage.architecture.registry import Factorization
from hf_lineage.errors import NothingToCompare, printable
from hf_lineage.running.model import build_tiny_model, otherwise, required, select_overrides
from hf_lineage.running.proof.active import inactive
from hf_lineage.running.proof.differences import faults
from hf_lineage.running.proof.names import names_said, names_unseen
from hf_lineage.running.proof.outcome import Proof


def prove(factorization: Factorization, architecture: str, config: Mapping[str, Any]) -> Proof:
    """Return what a factorization says of a class otherwise than the module of transformers computes it.

    Raise NothingToCompare where transformers has no such class.
    """
    module: Any = getattr(transformers, architecture, None) if architecture.isidentifier() else None
    if not _is_model(module):
        raise NothingToCompare(
            f"transformers {transformers.__version__} has no class {printable(architecture, 200)}, so "
            f"{factorization.name}.yaml cannot be proved; a newer release may have it (remote code is never run)"
        )
    with _quiet():
        try:
            wanted = required(factorization, architecture, select_overrides(config, module.config_class.sub_configs))
            noticed = _noticed(factorization, architecture, wanted)
        except Exception as error:
            noticed = {"unfinished": f"{type(error).__name__}: {error}"}
    return Proof(factorization.name, architecture, transformers.__version__, noticed)


def _is_model(module: Any) -> bool:
    """Whether this is a class of models that can be built from a configuration."""
    is_class = isinstance(module, type) and issubclass(module, transformers.PreTrainedModel)
    return is_class and getattr(module, "config_class", None) is not None


def _noticed(factorization: Factorization, architecture: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """By the name of the rule, what breaks it."""
    with tempfile.TemporaryDirectory() as folder:
        tiny = build_tiny_model(architecture, Path(folder, "asked"), wanted, factorization)
        unseen = names_unseen(names_said(factorization), tiny)
        other_activations = otherwise(factorization, architecture, wanted)
        other = build_tiny_model(architecture, Path(folder, "other"), other_activations, factorization)
        return ({"names_unseen": sorted(unseen)} if unseen else {}) | faults(tiny) | inactive(other)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What transformers says of a model that is no real one is kept from the user."""
    level = transformers.logging.get_verbosity()
    bars = transformers.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(level)
        if bars:
            transformers.logging.enable_progress_bar()
