"""Inspection of one model: trace concentration by layer, pairing accuracy by path, and what was read.

Pairing is the paper's experiment: with S_ij = s(W_out,i W_in,j), assignment should find every layer's own partner.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.layout import Layout
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.evidence.comparison import assign
from hf_lineage.signature.factors import matrix_products
from hf_lineage.signature.matrix_product import MatrixProduct
from hf_lineage.signature.recipe import RECIPES, Array, Vector
from hf_lineage.source.headers import Headers

PLAIN = RECIPES["paper"]
ROOM = 2**29  # Bytes for the products of all pairs of layers; it bounds the number of probes


@dataclass(frozen=True)
class Pairing:
    """One path of a model: S (L, L) over all pairs of layers, and the sign of every layer's own trace (L,)."""

    scores: Vector
    signs: Vector
    alike: NDArray[np.bool_]  # (L, L): which have equal shapes, so that reader and writer fit; S is 0 elsewhere
    layers: tuple[int, ...]  # (L,): their numbers in the model

    @property
    def concentration(self) -> Vector:
        """(L,): s(M) of every layer's own product."""
        return np.diagonal(self.scores)

    @property
    def accuracy(self) -> float:
        """The share of layers that S pairs with themselves, by chance one over those of equal shapes."""
        rows, columns = assign(np.where(self.alike, self.scores, -1.0))
        paired = rows == columns
        return float(np.mean(paired[self.alike.sum(axis=1) > 1]))

    @property
    def auc(self) -> float:
        """The probability that a layer's own product scores above the product of two layers."""
        others = self.scores[self.alike & ~np.eye(len(self.scores), dtype=bool)]
        own = self.concentration[self.alike.sum(axis=1) > 1, None]
        return float((own > others).mean() + (own == others).mean() / 2)


@dataclass(frozen=True)
class Inspection:
    """Trace concentration and pairing of one model, and how many of its bytes they need."""

    model: str
    commit: str | None
    architecture: str
    factorization: str
    layers: int
    width: int
    heads: int
    pairings: Mapping[str, Pairing | str]  # Path -> its pairing, or why it has none
    bytes_read: int
    bytes_stored: int
    unclaimed: tuple[str, ...]


def inspect_model(model: Headers) -> Inspection:
    """Return the inspection of an opened model."""
    repo, checkpoint, layout = model.model_config.repo, model.checkpoint, model.layout
    claimed = {name for matrices in layout.everything for name in matrices.tensors}
    names = repo.name, repo.commit, model.model_config.architecture, layout.factorization.name
    sizes = layout.layers, layout.width, layout.heads
    pairings = {path: pairing(checkpoint, layout, path) for path in layout.paths}
    parts = checkpoint.parts(claimed).values(), checkpoint.stored.values()
    read, stored = (sum(part.size for part in each) for each in parts)
    unclaimed = sorted(checkpoint.stored.keys() - checkpoint.parts(checkpoint.tensors).keys())
    return Inspection(*names, *sizes, pairings, read, stored, (*layout.unclaimed, *unclaimed))


@np.errstate(all="ignore")  # products that are not finite are left out
def pairing(checkpoint: Checkpoint, layout: Layout, path: str) -> Pairing | str:
    """Return the pairing experiment of one path, or why there is none; large norms ‖M‖_F are estimated from probes."""
    numbers = layout.numbers(path)
    branches = [list(matrix_products(layout, path, number, PLAIN, checkpoint.read)) for number in numbers]
    kinds = [tuple(term.reader.shape for term in branch) for branch in branches]
    alike = np.array([[one == other for other in kinds] for one in kinds])
    if not np.any(alike & ~np.eye(len(kinds), dtype=bool)):
        return "no two layers have matrices of equal shapes, so there is nothing to pair"
    traces, norms = np.zeros(alike.shape), np.zeros(alike.shape)
    for kind in dict.fromkeys(kinds):
        chosen = [layer for layer, other in enumerate(kinds) if other == kind]
        block = np.ix_(chosen, chosen)
        # As many probes as fit in ROOM, 16 to 256; the identity for a narrower model.
        width = kind[0][1]
        probes = replace(PLAIN, probes=max(16, min(256, ROOM // (4 * len(chosen) ** 2 * width)))).probe_matrix(width)
        probes = np.eye(width, dtype=np.float32) if probes is None else probes
        traces[block], norms[block] = _traces_and_norms([branches[layer] for layer in chosen], probes)
    usable = (norms > 0) & np.isfinite(norms) & np.isfinite(traces)
    scores = np.divide(np.abs(traces), norms, out=np.zeros_like(norms), where=usable)
    return Pairing(scores, np.sign(np.where(usable, traces, 0.0).diagonal()), alike, numbers)


def _traces_and_norms(branches: list[list[MatrixProduct]], probes: Array) -> tuple[Vector, Vector]:
    """Return trace and ‖·‖_F of W_out,i W_in,j for all pairs of layers, both (L, L), some units per layer at a time."""
    layers, (width, columns) = len(branches), probes.shape
    traces = np.zeros((layers, layers))
    products = np.zeros((layers, width, layers * columns), np.float32)
    for tiles in zip(*(itertools.chain(*(term.tiles() for term in branch)) for branch in branches), strict=True):
        writers, readers = (np.stack(rows) for rows in zip(*((tile.out, tile.inn) for tile in tiles), strict=True))
        traces += writers.reshape(layers, -1) @ readers.reshape(layers, -1).T
        through = (readers @ probes).swapaxes(0, 1).reshape(readers.shape[1], -1)
        for product, writer in zip(products, writers, strict=True):
            product += writer.T @ through
    norms = np.linalg.norm(products.reshape(layers, width, layers, columns), axis=(1, 3))
    return traces, norms.astype(np.float64)
