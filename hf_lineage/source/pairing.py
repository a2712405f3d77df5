"""Pairing: which tensor of the base each tensor of a model is, and what only one of the two stores.

Names are those of the class on disk, with or without the prefix of its base model, or those of a converter. Some of
what one side lacks says nothing: copies of an embedding that are tied to it, lists of positions, and biases of zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from hf_lineage.architecture.schema import as_names, bare_name, base_prefixes
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.errors import CheckpointError, printable
from hf_lineage.source.differences import differing_settings, says_nothing, unaccounted
from hf_lineage.source.headers import Opened

TIED = "tie_word_embeddings"
ROTARY = ("rope_scaling", "rope_parameters")
SLOPE = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


@dataclass(frozen=True)
class Pairing:
    """The tensors of a model, each with its counterpart in the base."""

    base: Checkpoint
    candidate: Checkpoint
    pairs: tuple[tuple[str, str], ...]
    """Names in the model and in the base."""
    added: tuple[str, ...]
    """Tensors that the base does not have."""
    lacking: tuple[str, ...]
    """Tensors that the model does not have."""
    copies: tuple[str, ...]
    """Tensors that only one of the two stores and that say nothing of their own, each with its meaning."""
    settings: tuple[str, ...]
    """Settings that have other values in the two configurations."""


def pair_tensors(base: Opened, candidate: Opened) -> Pairing:
    """Return the tensors of two models that are one, by names and shapes; raise CheckpointError for names twice."""
    _refuse_doubles(base)
    _refuse_doubles(candidate)
    known = by_bare_name(base)
    pairs: dict[str, str] = {}
    alone: list[str] = []
    for bare, name in by_bare_name(candidate).items():
        if bare in known:
            pairs[name] = known[bare]
        else:
            alone.append(name)
    taken = set(pairs.values())
    for name in [*alone]:
        if other := _renamed(candidate, name, known, taken):
            pairs[name] = other
            taken.add(other)
            alone.remove(name)
    lacking = [name for name in known.values() if name not in taken]
    copies = dict(_copies(base, candidate, alone, lacking, pairs))
    added = dict.fromkeys((*(name for name in alone if name not in pairs), *unaccounted(base, candidate)))
    return Pairing(
        base.checkpoint,
        candidate.checkpoint,
        tuple(pairs.items()),
        tuple(name for name in added if name not in copies),
        tuple(name for name in lacking if name not in copies),
        tuple(f"{printable(name, 200)} is {what}" for name, what in copies.items()),
        differing_settings(base, candidate),
    )


def by_bare_name(model: Opened) -> dict[str, str]:
    """Return names of tensors by their names without the prefix of the base model; none where two are the same."""
    names = _names(model)
    return {bare: every[0] for bare, every in names.items() if len(every) == 1}


def _names(model: Opened) -> dict[str, list[str]]:
    names, starts = dict[str, list[str]](), base_prefixes(model.layout.factorization)
    for name in model.checkpoint.tensors:
        names.setdefault(bare_name(name, starts), []).append(name)
    return names


def _refuse_doubles(model: Opened) -> None:
    doubles = [bare for bare, every in _names(model).items() if len(every) > 1]
    if doubles:
        raise CheckpointError(f"{model.described.repo} has two tensors that are {printable(doubles[0], 200)}")


def _renamed(model: Opened, name: str, known: Mapping[str, str], taken: set[str]) -> str | None:
    """Return the base's tensor that a converter stores under another name, if just one that is free can be it."""
    if model.described.foreign is None:
        return None
    possible = {
        known[bare]
        for alias in model.described.foreign.aliases(name)
        for bare in (alias, bare_name(alias, base_prefixes(model.layout.factorization)))
        if bare in known and known[bare] not in taken
    }
    return possible.pop() if len(possible) == 1 else None


def _copies(
    base: Opened, candidate: Opened, alone: list[str], lacking: list[str], pairs: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield tensors of one side that say nothing of their own; a copy of an embedding is held against the base's."""
    tied = all(model.described.config.get(TIED, True) is not False for model in (base, candidate))
    rows = next((name for name in _embeddings(base) if name in base.checkpoint.tensors), None)
    head = next((other for name, other in pairs.items() if rows and other == rows), None)
    for model, names in ((candidate, alone), (base, lacking)):
        for name in names:
            info = model.checkpoint.tensors[name]
            if tied and head and rows and info.shape == base.checkpoint.tensors[rows].shape:
                if model is candidate:
                    pairs[name] = rows
                    continue
                if np.array_equal(base.checkpoint.read(name), base.checkpoint.read(rows)):
                    yield name, "the embedding, to which it is tied"
                    continue
            if what := says_nothing(model.checkpoint, name, info) or _rotary(model.checkpoint, name, base):
                yield name, what


def _embeddings(model: Opened) -> Iterator[str]:
    for name in as_names(model.layout.factorization.embedding):
        if isinstance(name, str):
            yield f"{name}.weight"
            yield bare_name(f"{name}.weight", base_prefixes(model.layout.factorization))


def _rotary(checkpoint: Checkpoint, name: str, base: Opened) -> str:
    """Return in words that a tensor is what a converter makes of the base's rotary settings; empty for any other.

    Frequencies with waves longer than the positions that a model was first trained on are divided. Those of short waves
    are not, and between the two there is a slope (`rope_type` llama3).
    """
    config = base.described.config
    scaling = next((one for key in ROTARY if isinstance(one := config.get(key), Mapping) and "factor" in one), {})
    given = [*(scaling.get(key) for key in SLOPE), scaling.get("rope_theta", config.get("rope_theta"))]
    info = checkpoint.tensors[name]
    factors = checkpoint.read(name) if len(info.shape) == 1 and not info.refusal else np.empty(0)
    if not factors.size or not all(isinstance(one, int | float) and one > 0 for one in given):
        return ""
    factor, low, high, positions, theta = map(float, given)
    waves = 2 * np.pi * theta ** (np.arange(factors.size) / factors.size)
    smooth = np.clip((positions / waves - low) / (high - low or 1), 0, 1)
    expected = 1 / ((1 - smooth) / factor + smooth)
    return "made of the base's rotary settings" if np.allclose(factors, expected, rtol=1e-4) else ""
