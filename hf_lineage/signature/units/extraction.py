"""Read units: the hidden units of some layers, of all experts together, seen through a matrix, layer by layer."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np

from hf_lineage.architecture import Layout
from hf_lineage.checkpoint import Checkpoint
from hf_lineage.signature.computing import Share, workers
from hf_lineage.signature.products import (
    MatrixProduct,
    Probes,
    matrix_products,
    measure_units,
    row_norms,
    tensors,
    written,
)
from hf_lineage.signature.recipe import RECIPES, Array, Recipe, Vector
from hf_lineage.signature.stream import MeasuredStream, Stream
from hf_lineage.signature.units.rows import PATH, UnitRows
from hf_lineage.signature.units.subsample import Keep, Numbers, everything, experts_of
from hf_lineage.signature.values import Signature
from hf_lineage.signature.writers import JOINED

RECIPE = RECIPES["robust"]
"""How their rows are formed: gains folded in, means removed, weighed by activity."""
LIGHT = replace(RECIPE, probes=1, coordinates=2)
"""The same with almost no sketch, to measure how much every unit writes."""
WIDE = 1024
"""Longer rows in coordinates of their own are kept in half precision, which is enough for rows of length 1."""
FEW = 4
"""Where one unit of so many is kept, it is taken out before rows are prepared."""


@dataclass(frozen=True)
class Measured:
    """The weights of the hidden units of a layer, measured once however often the units are compared."""

    experts: tuple[Vector, ...]
    """What the units of each expert write, in any unit of measure; a dense layer is one expert."""
    writes: float
    """What the layer writes."""
    joins: tuple[float, ...]
    """What the layer is added to, as in `PathSignature.joins`."""
    exact: bool = True
    """Whether all coordinates of the units were read, and not some of them."""


def measured_before(signature: Signature | None, layout: Layout) -> dict[int, Measured]:
    """Return what the hidden units weigh of those layers that a signature holds by the usual recipe; else nothing."""
    if signature is None or PATH not in signature.paths or not _usual(signature.recipe):
        return {}
    path, numbers = signature.paths[PATH], signature.numbers(PATH)
    joins = np.zeros((len(numbers), JOINED)) if path.joins is None else path.joins
    return {
        number: Measured(
            _by_expert(units.weight, layout, number), float(writes), tuple(row.tolist()), path.sampled is None
        )
        for number, units, writes, row in zip(numbers, path.units, path.writes, joins, strict=False)
    }


def _usual(recipe: Recipe) -> bool:
    return recipe == replace(RECIPE, probes=recipe.probes, coordinates=recipe.coordinates, frame=recipe.frame)


def _by_expert(weight: Array | Vector, layout: Layout, number: int) -> tuple[Vector, ...]:
    ends = accumulate((size for own in experts_of(layout.sets(PATH)[number]) for size in own), initial=0)
    return tuple(weight[start:stop].astype(np.float64) for start, stop in pairwise(ends))


def obstacle(layout: Layout) -> str:
    """Return why the hidden units of a model are not compared one by one, as a phrase after its name; else empty."""
    if PATH not in layout.paths:
        return "has no MLP"
    return "has layers of different widths" if len(set(layout.widths)) > 1 else ""


@dataclass(frozen=True)
class View:
    """How the units of a layer are seen."""

    through: Array | None = None
    """(s, d): what units are multiplied with; without it they are in the coordinates of their own stream."""
    of_length_one: bool = False
    """Whether the rows of a unit are scaled to length 1; if not, they are divided by the length of the whole rows."""
    keep: Keep = everything
    """Which units of a layer with experts are held in memory."""
    gates: bool = True
    """Whether the gates of gated units are seen; where units are weighed by them, they are read in any case."""

    def width(self, own: int) -> int:
        """Return how many coordinates that gives, from those of the stream."""
        return own if self.through is None else len(self.through)

    def rows(self, rows: Array, norms: Vector) -> Array | Vector:
        """Return what is seen of rows (u, d) of these norms (u,)."""
        seen: Array | Vector = (rows if self.through is None else rows @ self.through.T) * _over(norms)
        return seen * _over(np.sqrt(np.vecdot(seen, seen))) if self.of_length_one else seen


def _over(norms: Vector) -> Vector:
    """One over each norm, (u, 1); 0 for a row of zeros."""
    over: Vector = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)[:, None]
    return over


def unit_rows(
    checkpoint: Checkpoint,
    layout: Layout,
    layers: Collection[int],
    view: View,
    known: MutableMapping[int, Measured] | None = None,
    stream: Stream | MeasuredStream | None = None,
) -> dict[int, UnitRows]:
    """Return the hidden units of each of these layers that has an MLP, as they are seen.

    The weight of units is taken from `known`, or measured and added to it. Raise as `Checkpoint.read` does.
    """
    known = {} if known is None else known
    rows: dict[int, UnitRows] = {}
    with workers() as share:
        for number in (number for number in layout.numbers(PATH) if number in layers):
            recipe = replace(RECIPE, activity=number not in known, gates=view.gates)
            checkpoint.prefetch(*tensors(layout, PATH, number, recipe))
            branch = list(matrix_products(layout, PATH, number, recipe, functools.cache(checkpoint.read)))
            experts = experts_of(layout.sets(PATH)[number])
            if number not in known:
                known[number] = _measured(branch, layout, number, share)
                if stream:
                    known[number] = replace(known[number], joins=tuple(stream.joins(PATH, (number,))[0].tolist()))
            rows[number] = _layer(branch, experts, known[number], view, share)
    return rows


def _measured(branch: Sequence[MatrixProduct], layout: Layout, number: int, share: Share) -> Measured:
    surveys = [measure_units(term, Probes.draw(LIGHT, term.reader.shape[1]), share) for term in branch]
    weight = np.concatenate([units.norm for units in surveys])
    size = float(np.linalg.norm(weight))  # about the norm of the branch
    writes = written(list(zip(branch, surveys, strict=True)), size, size)
    return Measured(_by_expert(weight, layout, number), writes, joins=(0.0,) * JOINED)


def _layer(
    branch: Sequence[MatrixProduct], experts: Sequence[Sequence[int]], measured: Measured, view: View, share: Share
) -> UnitRows:
    """The kept hidden units of a layer, as they are seen."""
    parts = measured.experts
    kept = view.keep(parts)
    seen, first = list[tuple[Array, Array, Array, Vector]](), 0
    for term, own in zip(branch, experts, strict=True):
        starts = accumulate(own[:-1], initial=0)
        places = [part + start for part, start in zip(kept[first : first + len(own)], starts, strict=True)]
        seen.append(_seen(replace(term, inside=None), np.concatenate(places), view, share))
        first += len(own)
    inner, outer, gate = (np.concatenate([one[side] for one in seen]) for side in range(3))
    norms = np.concatenate([one[3] for one in seen], axis=1)
    chosen = np.concatenate([part[places] for part, places in zip(parts, kept, strict=True)])
    counts = tuple(map(len, kept)) if len(parts) > 1 else ()
    return UnitRows(
        inner, outer, gate, chosen, norms, measured.writes, measured.joins, counts,
        len(chosen) / max(sum(map(len, parts)), 1),
    )  # fmt: skip


def _seen(term: MatrixProduct, kept: Numbers, view: View, share: Share) -> tuple[Array, Array, Array, Vector]:
    """What the kept units of a term read and write, their gates, (u, s) each, and the norms of the former, (2, u)."""
    if len(kept) * FEW < len(term.reader):  # so that the others are not prepared
        term, kept = _of_some_units(term, kept), np.arange(len(kept))
    places = np.full(len(term.reader), -1)
    places[kept] = np.arange(len(kept))
    width = view.width(term.reader.shape[1])
    widths = (width, width, width if term.gate else 0)
    inner, outer, gate = (np.empty((len(kept), size), np.float16 if size > WIDE else np.float32) for size in widths)
    sizes = np.empty((3, len(kept)))

    def note(starts: Iterator[int]) -> None:
        for tile in term.tiles(starts):
            here = places[tile.units]
            mine = here >= 0
            for side, (seen, rows) in enumerate(((inner, tile.inn), (outer, tile.out), (gate, tile.gate))):
                if rows is None:
                    continue
                chosen = np.asarray(rows) if mine.all() else np.asarray(rows)[mine]
                sizes[side, here[mine]] = norms = row_norms(chosen)
                seen[here[mine]] = view.rows(chosen, norms)

    share(note, term.starts)
    return inner, outer, gate, sizes[:2]


def _of_some_units(term: MatrixProduct, units: Numbers) -> MatrixProduct:
    """A term that has these of its hidden units alone."""
    return replace(
        term,
        writer=np.asarray(term.writer)[:, units],
        reader=np.asarray(term.reader)[units],
        unit_gain=None if term.unit_gain is None else term.unit_gain[units],
        gate=term.gate and replace(term.gate, stored=np.asarray(term.gate.stored)[units]),
    )
