"""Token frame: coordinates that two models share although their residual streams do not, by the rows of their tokens.

An orthogonal change Q of the residual coordinates turns the rows X (K, d) of K tokens into X Qᵀ, and what a unit reads
or writes, w, into Q w. With the polar factor U = X (XᵀX)^(-1/2), the product U w stays as it is. It has K coordinates
whatever the width, so that it is also the same for a model of another width with a stream that means the same.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.layout import Layout
from hf_lineage.checkpoint import Checkpoint
from hf_lineage.errors import NothingToCompare
from hf_lineage.signature.branches import tensors, terms
from hf_lineage.signature.inverse_root import InverseRoot, inverse_root
from hf_lineage.signature.parallel import Share, workers
from hf_lineage.signature.recipe import RECIPES, Array, Recipe, Vector, signs
from hf_lineage.signature.residual import Probes, written
from hf_lineage.signature.sample import runs
from hf_lineage.signature.survey import survey
from hf_lineage.signature.term import Term, row_norms
from hf_lineage.signature.unit_rows import Layers, UnitRows

Numbers = NDArray[np.int64]
PATH = "mlp"
"""The path whose hidden units are compared."""
RECIPE = RECIPES["robust"]
"""How their rows are formed: gains folded in, means removed, weighed by activity."""
LIGHT = replace(RECIPE, probes=1, coordinates=2)
"""The same with next to no sketch: what is asked for is how much every unit writes."""
FEWEST_TOKENS, MOST_TOKENS, SIDE_BY_SIDE = 2048, 8192, 64
"""Tokens are read in runs of SIDE_BY_SIDE rows, twice as many as the wider stream has coordinates, between these."""
SEEN = 256
"""Coordinates in which units are seen; of wider streams random sums."""
UNWEIGHED = replace(RECIPE, activity=False)
"""The same where it is known what every unit weighs, so that gates need not be read."""
WIDE = 1024
"""Rows in coordinates of their own that are longer are kept in half precision: of length 1, they need no more."""
LEAST = 1e-4
"""A direction in which rows of tokens vary less, relative to the largest, is rounding and is left out."""
SPANNED = 0.5
"""Rows of tokens have to span this share of the narrower stream: in fewer directions most of a unit is not seen."""


@dataclass(frozen=True)
class Polar:
    """U = X (XᵀX)^(-1/2) of the rows X of K tokens: orthonormal columns in the directions that these rows span."""

    rows: Vector
    """(K, d): X, its largest number 1."""
    root: InverseRoot
    """(XᵀX)^(-1/2)"""

    @property
    def rank(self) -> int:
        """How many directions the rows span."""
        return self.root.rank

    @property
    def factor(self) -> Vector:
        """(K, d)"""
        return self.rows @ self.root.times(np.eye(self.rows.shape[1]))


def drawn_tokens(shared: int, widths: Sequence[int]) -> NDArray[np.int64]:
    """Return which of so many shared tokens are read, the same ones for models of these widths, ascending."""
    wanted = min(max(2 * max(widths), FEWEST_TOKENS), MOST_TOKENS)
    if shared <= wanted:
        return np.arange(shared)
    parts = runs(shared, wanted, SIDE_BY_SIDE, f"tokens {shared} {wanted}")
    return np.concatenate([np.arange(part.start, part.stop) for part in parts])


def token_rows(checkpoint: Checkpoint, name: str, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the rows (K, d) of some tokens; only these are read where the embedding is stored as plain rows.

    Raise as `Checkpoint.read` does.
    """
    stored = checkpoint.rows(name)
    if stored is None:
        whole: NDArray[np.float64] = np.asarray(checkpoint.read(name))[numbers].astype(np.float64)
        return whole
    ascending, places = np.unique(numbers, return_inverse=True)
    pieces = [stored.tensor.rows(run) for run in _consecutive(ascending)]
    rows: NDArray[np.float64] = checkpoint.read_pieces(name, pieces)[places].astype(np.float64)
    return rows


def _consecutive(numbers: NDArray[np.int64]) -> Iterator[slice]:
    """Ascending numbers as slices."""
    breaks = np.flatnonzero(np.diff(numbers) > 1) + 1
    for run in np.split(numbers, breaks):
        yield slice(int(run[0]), int(run[-1]) + 1)


def polar(rows: NDArray[np.float64], narrower: int) -> Polar:
    """Return the polar factor of the rows of some tokens.

    Raise NothingToCompare where they span too few directions, given the width of the narrower stream of the two.
    """
    largest = float(np.abs(rows).max(initial=0.0))
    if not np.isfinite(rows).all() or largest == 0:
        raise NothingToCompare("the rows of its tokens are zero or not finite")
    scaled = rows / largest
    seen = Polar(scaled, inverse_root(scaled.T @ scaled, LEAST))
    if seen.rank < SPANNED * narrower:
        raise NothingToCompare(
            f"the rows of {len(rows)} tokens span only {seen.rank} of the {rows.shape[1]} directions of its stream"
        )
    return seen


def between(base: Polar, candidate: Polar) -> tuple[Array, Array]:
    """Return what the units of the base and of the candidate are multiplied with, (s, d) each.

    ⟨U_A a, U_B b⟩ = ⟨a, U_Aᵀ U_B b⟩, so that rows of the candidate are turned into coordinates of the base.
    """
    seen = seen_through(base.factor.shape[1])
    through = candidate.rows.T @ (base.rows @ base.root.times(seen.T.astype(np.float64)))
    return seen, candidate.root.times(through).T.astype(np.float32)


def seen_through(width: int) -> Array:
    """Return the identity or, of a wide stream, random signs (s, width) that leave inner products as they are."""
    if width <= SEEN:
        return np.eye(width, dtype=np.float32)
    return signs(f"units in a frame {width}", (SEEN, width)) / np.float32(np.sqrt(SEEN))


def obstacle(layout: Layout) -> str:
    """Return why the hidden units of a model are not compared one by one, as a phrase after its name; else empty."""
    if PATH not in layout.paths:
        return "has no MLP"
    if any(len(sets) != 1 or sets[0].stacked for sets in layout.sets(PATH) if sets):
        return "has experts"
    return "has layers of unlike widths" if len(set(layout.widths)) > 1 else ""


def unit_rows(
    checkpoint: Checkpoint, layout: Layout, layers: Collection[int], through: Array, known: Layers | None = None
) -> dict[int, UnitRows]:
    """Return the hidden units of those of these layers that have an MLP, seen through a matrix (s, d).

    What they weigh is measured, unless it is known from when they were seen before. Raise as `Checkpoint.read` does.
    """
    numbers = [number for number in layout.numbers(PATH) if number in layers]
    rows: dict[int, UnitRows] = {}
    with workers() as share:
        for number in numbers:
            term = _read(checkpoint, layout, number, UNWEIGHED if known else RECIPE)
            measured = known[number] if known else _measured(term, share)
            rows[number] = _seen(term, measured, through.T, np.arange(len(measured.weight)), share)
    return rows


def own_rows(
    checkpoint: Checkpoint, layout: Layout, number: int, known: UnitRows, units: NDArray[np.int64]
) -> UnitRows:
    """Return some units, ascending, of a layer in the coordinates of its own stream; what they weigh is known.

    Raise as `Checkpoint.read` does.
    """
    with workers() as share:
        return _seen(_read(checkpoint, layout, number, UNWEIGHED), known, None, units, share)


def _read(checkpoint: Checkpoint, layout: Layout, number: int, recipe: Recipe) -> Term:
    """The MLP of a layer."""
    checkpoint.prefetch(*tensors(layout, PATH, number, recipe))
    (term,) = terms(layout, PATH, number, recipe, functools.cache(checkpoint.read))
    return term


def _measured(term: Term, share: Share) -> UnitRows:
    """The hidden units of a layer by what they weigh alone: their rows are empty."""
    hidden, width = term.reader.shape
    weight = (measured := survey(term, Probes.of(LIGHT, width), share)).norm
    writes = written([(term, measured)], float(weight.sum()), _size(weight))
    nothing = np.empty((hidden, 0), np.float32)
    return UnitRows(nothing, nothing, weight, np.zeros((2, hidden)), writes)


def _seen(term: Term, measured: UnitRows, through: Array | None, units: NDArray[np.int64], share: Share) -> UnitRows:
    """Some hidden units of a layer, ascending, each over the norm of its whole row; through nothing as they are."""
    width = term.reader.shape[1] if through is None else through.shape[1]
    kind = np.float16 if through is None and width > WIDE else np.float32
    inner, outer = (np.empty((len(units), width), kind) for _ in range(2))
    unweighed = replace(term, inside=None)
    sizes = np.empty((2, len(units)))

    def note(starts: Iterator[int]) -> None:
        for tile in unweighed.tiles(starts):
            chosen = slice(*np.searchsorted(units, (tile.units.start, tile.units.stop)).tolist())
            inside = units[chosen] - tile.units.start
            for side, (seen, rows) in enumerate(((inner, tile.inn), (outer, tile.out))):
                some = np.asarray(rows) if len(inside) == len(rows) else np.asarray(rows)[inside]
                norms = row_norms(some)
                over = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
                seen[chosen] = (some if through is None else some @ through) * over[:, None]
                sizes[side, chosen] = norms

    share(note, term.starts)
    return UnitRows(inner, outer, measured.weight[units], sizes, measured.writes)


def _size(weight: Vector) -> float:
    """About ‖M‖_F of a branch whose units have these norms."""
    return float(np.sqrt(np.sum(weight**2)))
