"""Inspection of one model: trace concentration by layer, pairing accuracy by path, and what was read.

The pairing experiment is the paper's and uses its plain products, whatever the recipe of a check: over all pairs of
layers, S_ij = s(W_out,i W_in,j); the Hungarian assignment on S should find every layer's own partner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from hf_lineage.branches import Term, terms
from hf_lineage.checkpoint import Checkpoint
from hf_lineage.comparison import assign
from hf_lineage.layout import Layout
from hf_lineage.repo import RepoRef
from hf_lineage.signature import RECIPES, Vector

PLAIN = replace(RECIPES["paper"], probes=256)


@dataclass(frozen=True)
class Pairing:
    """One path of a model: S (L, L) over all pairs of layers, and the sign of every layer's own trace (L,)."""

    scores: Vector
    signs: Vector

    @property
    def concentration(self) -> Vector:
        """(L,): s(M) of every layer's own product."""
        return np.diagonal(self.scores)

    @property
    def accuracy(self) -> float:
        """Share of layers that the assignment on S pairs with themselves; chance is 1 / L."""
        return float(np.mean(assign(self.scores) == np.arange(len(self.scores))))

    @property
    def auc(self) -> float:
        """Probability that a layer's own product scores above a mispaired one; NaN for a single layer."""
        own, others = self.concentration, self.scores[~np.eye(len(self.scores), dtype=bool)]
        wins = (own[:, None] > others).mean() + (own[:, None] == others).mean() / 2 if others.size else np.nan
        return float(wins)


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
    """Return the pairing experiment of one path, or why it cannot be done. Two layers are in memory at a time.

    Traces are exact; ‖M‖_F is estimated from the probes from 256 probes in models wider than that.
    """
    signs = np.zeros(layout.layers)
    scores = np.zeros((layout.layers, layout.layers))
    probes = PLAIN.probe_matrix(layout.width)
    through = None if probes is None else torch.from_numpy(probes)
    for i in range(layout.layers):
        writer = _whole(checkpoint, layout, path, i).out
        for j in range(layout.layers):
            reader = _whole(checkpoint, layout, path, j).inn
            if reader.shape[0] != writer.shape[1]:
                return f"layers {i} and {j} have {writer.shape[1]} and {reader.shape[0]} hidden units"
            trace = float((writer.mT * reader).sum(dim=1).double().sum())
            norm = float((writer @ (reader if through is None else reader @ through)).double().norm())
            scores[i, j] = abs(trace) / norm if norm > 0 and np.isfinite([norm, trace]).all() else 0.0
            signs[i] = np.sign(trace) if i == j else signs[i]
    return Pairing(scores, signs)


def _whole(checkpoint: Checkpoint, layout: Layout, path: str, layer: int) -> Term:
    """One branch as a single term, its experts side by side."""
    found = list(terms(layout, path, layer, PLAIN, lambda name: checkpoint.read(name).float()))
    return Term(torch.cat([term.out for term in found], dim=1), torch.cat([term.inn for term in found]), found[0].part)
