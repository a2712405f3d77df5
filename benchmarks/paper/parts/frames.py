"""Independent models of several shapes, and changes of a residual stream: what `ours:frames` is made of."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaForCausalLM

from benchmarks.paper.parts.adapters import Family, Workshop, load
from benchmarks.paper.parts.disguises import digest
from benchmarks.paper.parts.folders import rotate
from benchmarks.paper.parts.language import Model, Schedule, train
from hf_lineage.checking.frames import by_tokens
from hf_lineage.checking.opened import Opened, headers
from hf_lineage.evidence.framed import Framed, Test, compare_units
from hf_lineage.hub.reference import resolve
from hf_lineage.signature.recipe import Array
from hf_lineage.signature.token_frame import unit_rows
from hf_lineage.signature.unit_rows import Layers, UnitRows
from tests.laundering import permute_hidden

VERSION = 1
"""Raised when the code below, or what the library measures, comes to mean something else."""
RATE, BATCH = 1e-3, 8
"""How narrowed models are trained on."""
DRAWN = 2000
"""How often whole models are drawn again for an interval."""


@dataclass(frozen=True)
class Seen:
    """What two models show unit by unit."""

    share: float
    p_value: float
    z: Mapping[str, float]


def seen(workshop: Workshop, base: Path, candidate: Path, permutations: int) -> Seen:
    """Return what two models show through the tokens that both know: here the 256 bytes."""

    def measure() -> dict[str, Any]:
        framed = through_tokens(base, candidate, permutations)
        order = framed.order
        return asdict(Seen(framed.inherited.share, order.p_value if order else 1.0, dict(order.z) if order else {}))

    return Seen(**workshop.cache.kept("frames", [VERSION, digest(base), digest(candidate), permutations], measure))


def through_tokens(base: Path, candidate: Path, permutations: int) -> Framed:
    """Return what all layers of two models show."""
    frame, through = by_tokens(opened(base), opened(candidate))
    rows = [
        {number: as_seen(layer, matrix) for number, layer in in_own_coordinates(folder).items()}
        for folder, matrix in zip((base, candidate), through, strict=True)
    ]
    return compare_units(rows[0], rows[1], len(rows[1]), frame, Test(permutations, seed=0, unit_seed=0))


@functools.cache
def opened(folder: Path) -> Opened:
    """Return a model by its headers."""
    return headers(resolve(str(folder)))


@functools.cache
def in_own_coordinates(folder: Path) -> Layers:
    """Return the hidden units of all layers in the coordinates of the model's own stream."""
    model = opened(folder)
    everything, width = range(model.layout.layers), model.layout.width
    return unit_rows(model.checkpoint, model.layout, everything, np.eye(width, dtype=np.float32))


def as_seen(rows: UnitRows, through: Array) -> UnitRows:
    """Return hidden units through a matrix (s, d)."""
    return replace(rows, inner=rows.inner @ through.T, outer=rows.outer @ through.T)


def all_pairs(models: Sequence[Path]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of every two of the models."""
    yield from combinations(range(len(models)), 2)


def interval(found: Mapping[tuple[int, int], bool], models: int) -> tuple[float, float]:
    """Return a 95 % interval of the share of pairs for which something holds, whole models drawn again."""
    table = np.zeros((models, models))
    for pair, holds in found.items():
        table[pair] = holds
    pairs = np.triu(np.ones_like(table), 1)
    random = np.random.default_rng(0)
    counts = random.multinomial(models, np.full(models, 1 / models), size=DRAWN).astype(float)
    drawn, of = (np.einsum("ni,ij,nj->n", counts, some, counts) for some in (table, pairs))
    low, high = np.quantile(drawn[of > 0] / of[of > 0], (0.025, 0.975)).tolist()
    return low, high


def turned(workshop: Workshop, base: Path, shuffled: bool) -> Path:
    """Return a Llama in other residual coordinates and, if asked for, with its hidden units in another order."""

    def make(folder: Path) -> None:
        model = load(base).double()
        torch.manual_seed(0)
        with torch.no_grad():
            rotate(model)
            if shuffled:
                permute_hidden(model)
        model.float().save_pretrained(folder)

    return workshop.cache.kept_folder("turned", [VERSION, digest(base), shuffled], make)


def narrowed(workshop: Workshop, base: Path, width: int, steps: int) -> Path:
    """Return a Llama of which only so many residual coordinates are left, trained on for some steps."""
    schedule = Schedule(steps, RATE, BATCH)

    def make(folder: Path) -> None:
        train(cut(load(base), width), workshop.corpus, schedule, seed=0).save_pretrained(folder)

    return workshop.cache.kept_folder("narrowed", [VERSION, digest(base), width, schedule], make)


def cut(model: Model, width: int) -> Model:
    """Return a Llama with those residual coordinates alone in which its embedding varies most."""
    config = copy.deepcopy(model.config)
    config.head_dim = model.config.hidden_size // model.config.num_attention_heads
    config.hidden_size = width
    left = model.model.embed_tokens.weight.detach().var(dim=0).topk(width).indices.sort().values
    small, whole = LlamaForCausalLM(config), model.state_dict()
    for name, parameter in small.state_dict().items():
        value = whole[name]
        for axis in range(value.ndim):
            if value.shape[axis] != parameter.shape[axis]:
                value = value.index_select(axis, left)
        parameter.copy_(value)
    return small


def population(workshop: Workshop, families: Mapping[Family, int]) -> list[Path]:
    """Return independent models, so many of each family."""
    return [workshop.base(family, number) for family, count in families.items() for number in range(count)]
