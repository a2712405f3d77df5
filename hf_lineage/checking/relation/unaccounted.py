"""Unaccounted: stored tensors of a model that are neither its class's own nor equal to the base's.

A loader may rename them to what the class builds, and take them in place of what was compared: they verify nothing.
No table says what classes of diffusers and timm build: there the base says it, by its names and its settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hf_lineage.architecture.loading import DIFFUSERS, TIMM
from hf_lineage.architecture.registry import registry_table
from hf_lineage.checking.relation.configurations import differing
from hf_lineage.checking.source import Opened, OpenedModel
from hf_lineage.checkpoint import Checkpoint, TensorInfo
from hf_lineage.evidence import judging

POSITIONS = 2**20
"""The most positions that a list of them is read for."""
MOST_BYTES = 2**28
"""Bytes of all such tensors together that are read; what lies beyond is not held against the base."""
DEFAULTS, SIZES = "loading/diffusers.json", {"sample_size"}
"""Settings that classes of diffusers leave out, and settings that say nothing of their layers."""


def doubts(base: OpenedModel, candidate: OpenedModel) -> Iterator[str]:
    """Return a sentence about the unaccounted tensors of a candidate, if it has any."""
    names, listed = candidate.unaccounted, candidate.factorization.classes if candidate.factorization else ()
    unknown = any(name.startswith((DIFFUSERS, TIMM)) for name in listed)
    if not (names or unknown) or not (base.reopen and candidate.reopen):
        return judging.unaccounted(names)
    both = base.reopen(), candidate.reopen()
    if unknown and not any(one.described.foreign for one in both):
        return _unlike(*both)
    unlike = set(unaccounted(*both))
    return judging.unaccounted([name for name in names if name in unlike], ", and the base has no equal ones")


def _unlike(base: Opened, candidate: Opened) -> Iterator[str]:
    yield from judging.unaccounted(sorted(candidate.checkpoint.tensors.keys() - base.checkpoint.tensors.keys()))
    for setting in [*differing(_settings(base), _settings(candidate))][:1]:
        yield f"config.json is not that of the base, and no rule knows what its class makes of it: {setting}"


def _settings(model: Opened) -> dict[str, Any]:
    """Return the settings of a diffusers class, with what it leaves out, or those of timm that say what it builds."""
    name, config = model.described.architecture, model.described.config
    if name.startswith(TIMM):
        return {"name": str(config.get("architecture")).partition(".")[0], "model_args": config.get("model_args")}
    stated = {key: value for key, value in config.items() if not key.startswith("_") and key not in SIZES}
    return {**registry_table(DEFAULTS, dict[str, dict[str, Any]]).get(name.removeprefix(DIFFUSERS), {}), **stated}


def unaccounted(base: Opened, candidate: Opened) -> Iterator[str]:
    """Yield the names of tensors that are not the class's own, nor the base's bit for bit, and that say something."""
    own, others = candidate.unaccounted, {**base.checkpoint.tensors, **base.unaccounted}
    alike = [name for name in own if name in others and others[name].shape == own[name].shape]
    sizes = np.cumsum([sum(candidate.checkpoint.stored[part].size for part in own[name].parts) for name in alike])
    compared = alike[: int(np.searchsorted(sizes, MOST_BYTES, side="right"))]
    here, there = candidate.checkpoint.with_tensors(own), base.checkpoint.with_tensors(others)
    here.prefetch(*compared)
    there.prefetch(*compared)
    equal = {name for name in compared if _content(here, name) == _content(there, name)}
    read = {tensor.removesuffix(".weight") for layer_set in candidate.layout.everything for tensor in layer_set.tensors}
    for name in (name for name in own if name not in equal):
        # Under a second name a bias of 0 may take the place of another; beside a matrix that was read it adds nothing.
        second = name.endswith(".bias") and name.removesuffix(".bias") not in read
        if second or not says_nothing(here, name, own[name]):
            yield name


def _content(checkpoint: Checkpoint, name: str) -> list[tuple[object, ...]]:
    return [(part.dtype, part.shape, part.tobytes()) for part in checkpoint.read_parts(name)]


def says_nothing(checkpoint: Checkpoint, name: str, info: TensorInfo) -> str:
    """Return what a tensor is that every loader makes by itself; empty if it is none of these."""
    if info.numbers > POSITIONS or len(info.parts) != 1:
        return ""
    stored = checkpoint.stored[info.parts[0]]
    if info.refusal and stored.dtype in ("I64", "I32"):
        numbers = checkpoint.read_parts(name)[0].ravel()
        return "a list of positions" if np.array_equal(numbers, np.arange(numbers.size)) else ""
    if name.endswith(".bias") and not info.refusal and not np.any(checkpoint.read(name)):
        return "a bias of zeros"
    return ""
