"""Inspection of one model: trace concentration by layer, pairing accuracy by path, and what was read.

The pairing experiment is the paper's and uses its plain products, whatever the recipe of a check: over all pairs of
layers, S_ij = s(W_out,i W_in,j); the Hungarian assignment on S should find every layer's own partner.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from hf_lineage.branches import terms
from hf_lineage.checkpoint import Checkpoint
from hf_lineage.comparison import assign
from hf_lineage.layout import Layout
from hf_lineage.recipe import RECIPES, Vector
from hf_lineage.repo import RepoRef
from hf_lineage.term import Term

PLAIN = RECIPES["paper"]
ROOM = 2**29
"""Bytes for the products of all pairs of layers, seen through as many probes as fit."""


@dataclass(frozen=True)
class Pairing:
    """One path of a model: S (L, L) over all pairs of layers, and the sign of every layer's own trace (L,)."""

    scores: Vector
    signs: Vector
    alike: NDArray[np.bool_]
    """(L, L): which layers are of one kind, so that a reader of one fits a writer of the other; S is 0 elsewhere."""
    layers: tuple[int, ...]
    """(L,): their numbers in the model."""

    @property
    def concentration(self) -> Vector:
        """(L,): s(M) of every layer's own product."""
        return np.diagonal(self.scores)

    @property
    def accuracy(self) -> float:
        """Share of layers that the assignment on S pairs with themselves, of those that could be paired with others.

        Chance is one over the number of layers of a kind.
        """
        rows, columns = assign(np.where(self.alike, self.scores, -1.0))
        paired = rows == columns
        return float(np.mean(paired[self.alike.sum(axis=1) > 1]))

    @property
    def auc(self) -> float:
        """Probability that a layer's own product scores above a mispaired one."""
        others = self.scores[self.alike & ~np.eye(len(self.scores), dtype=bool)]
        own = self.concentration[self.alike.sum(axis=1) > 1, None]
        return float((own > others).mean() + (own == others).mean() / 2)


@dataclass(frozen=True)
class Inspection:
    """What one model shows by itself."""

    model: str
    revision: str | None
    architecture: str
    factorization: str
    layers: int
    width: int
    heads: int
    pairings: Mapping[str, Pairing | str]
    """By path; a text says why a path has none."""
    bytes_read: int
    bytes_stored: int
    unclaimed: tuple[str, ...]


def inspect_model(repo: RepoRef, architecture: str, checkpoint: Checkpoint, layout: Layout) -> Inspection:
    """Return the inspection of an opened model."""
    claimed = {name for layer in layout.mlp + layout.attention for found in layer for name in found.tensors}
    return Inspection(
        model=repo.name,
        revision=repo.revision,
        architecture=architecture,
        factorization=layout.factorization.name,
        layers=layout.layers,
        width=layout.width,
        heads=layout.heads,
        pairings={path: pairing(checkpoint, layout, path) for path in layout.paths},
        bytes_read=sum(checkpoint.tensors[name].size for name in claimed),
        bytes_stored=sum(info.size for info in checkpoint.tensors.values()),
        unclaimed=layout.unclaimed,
    )


def pairing(checkpoint: Checkpoint, layout: Layout, path: str) -> Pairing | str:
    """Return the pairing experiment of one path, or why it cannot be done. Every weight is read once.

    Traces are exact; ‖M‖_F is estimated from probes in models wider than there is room for.
    """
    numbers = layout.numbers(path)
    branches = [list(terms(layout, path, number, PLAIN, checkpoint.read)) for number in numbers]
    kinds = [tuple(term.reader.shape for term in branch) for branch in branches]
    alike = np.array([[one == other for other in kinds] for one in kinds])
    if not np.any(alike & ~np.eye(len(kinds), dtype=bool)):
        return "no two layers are of one kind, so there is nothing to pair"
    traces, norms = np.zeros(alike.shape), np.zeros(alike.shape)
    for kind in dict.fromkeys(kinds):
        chosen = [layer for layer, other in enumerate(kinds) if other == kind]
        block = np.ix_(chosen, chosen)
        traces[block], norms[block] = _traces_and_norms(
            [branches[layer] for layer in chosen], _probes(len(chosen), kind[0][1])
        )
    usable = (norms > 0) & np.isfinite(norms) & np.isfinite(traces)
    scores = np.divide(np.abs(traces), norms, out=np.zeros_like(norms), where=usable)
    return Pairing(scores, np.sign(np.where(usable, traces, 0.0).diagonal()), alike, numbers)


def _probes(layers: int, width: int) -> torch.Tensor:
    """As many as there is room for."""
    room = max(16, min(256, ROOM // (4 * layers**2 * width)))
    matrix = replace(PLAIN, probes=room).probe_matrix(width)
    return torch.eye(width) if matrix is None else torch.from_numpy(matrix)


def _traces_and_norms(branches: list[list[Term]], probes: torch.Tensor) -> tuple[Vector, Vector]:
    """Trace and ‖·‖_F of W_out,i W_in,j for all pairs of layers, (L, L) each, some units of every layer at a time."""
    layers, (width, columns) = len(branches), probes.shape
    traces = torch.zeros(layers, layers, dtype=torch.float64)
    products = torch.zeros(layers, width, layers * columns)
    for tiles in zip(*(itertools.chain(*(term.tiles() for term in branch)) for branch in branches), strict=True):
        writers, readers = (torch.stack(rows) for rows in zip(*((tile.out, tile.inn) for tile in tiles), strict=True))
        traces += (writers.flatten(1) @ readers.flatten(1).mT).double()
        through = (readers @ probes).transpose(0, 1).flatten(1)
        for product, writer in zip(products, writers, strict=True):
            product.addmm_(writer.mT, through)
    norms = products.reshape(layers, width, layers, columns).norm(dim=(1, 3))
    return traces.numpy(), norms.double().numpy()
