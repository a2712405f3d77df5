"""Independent models of several shapes, and changes of a residual stream: what `ours:frames` is made of."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from hf_lineage.checking.units import compare_by_units
from hf_lineage.evidence.unit_comparison import TOKEN, Test
from hf_lineage.hub.repo import resolve
from hf_lineage.source.headers import Opened, headers
from tests.laundering import permute_hidden

VERSION, MEASURED = 1, 7
"""Raised when the code that makes models below, or what the library measures, comes to mean something else."""
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
    frame: str
    """In which coordinates."""


def seen(workshop: Workshop, base: Path, candidate: Path, permutations: int) -> Seen:
    """Return what all layers of two models show, first through the tokens that both know: here the 256 bytes."""

    def measure() -> dict[str, Any]:
        layers = [range(opened(candidate).layout.layers)]
        framed = compare_by_units(opened(base), opened(candidate), layers, TOKEN, Test(permutations, seed=0))
        order = framed.order
        z = dict(order.z) if order else {}
        return asdict(Seen(framed.inherited.share, order.p_value if order else 1.0, z, framed.frame.name))

    return Seen(**workshop.cache.kept("frames", [MEASURED, digest(base), digest(candidate), permutations], measure))


@functools.cache
def opened(folder: Path) -> Opened:
    """Return a model by its headers."""
    return headers(resolve(str(folder)))


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


def forgetful(workshop: Workshop, base: Path) -> Path:
    """Return a turned and shuffled Llama whose rows of tokens are random numbers."""

    def make(folder: Path) -> None:
        model = load(turned(workshop, base, shuffled=True))
        torch.manual_seed(0)
        with torch.no_grad():
            for table in (model.get_input_embeddings(), model.get_output_embeddings()):
                table.weight.normal_(std=float(table.weight.std()))
        model.save_pretrained(folder)

    return workshop.cache.kept_folder("forgetful", [VERSION, digest(base)], make)


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
