"""Units: the hidden units and heads of some layers, of all experts together, seen through a matrix.

Any invertible change between the value and the output matrix of a head leaves its function as it is. So the product of
the two matrices is compared, and not each matrix by itself.
"""

import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.layers import LayerSet
from hf_lineage.architecture.layout import Layout
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import Memory
from hf_lineage.signature.devices import Share, workers
from hf_lineage.signature.factors import Read, matrix_products, open_tensors, tensors, terms_by_expert
from hf_lineage.signature.matrix_product import MatrixProduct, Probes, row_norms
from hf_lineage.signature.recipe import RECIPES, Array, Vector, random_stream
from hf_lineage.signature.residual import cap, measure_units, median_norm, part_norms
from hf_lineage.signature.unit_rows import HEADS, PATH, HeadProducts, UnitRows
from hf_lineage.signature.values import Signature

MOST_KEPT, MOST_OF_LAYER = 2**17, 2**12  # units that are kept of a model with experts at most, and of a layer: 400 MB
SMALLEST = 8  # the size in units that an expert exceeds; no layer is divided into smaller parts

Numbers = NDArray[np.int64]
Keep = Callable[[Sequence[Vector]], list[Numbers]]  # from the weights of each expert's units to those that are kept
RECIPE = RECIPES["robust"]  # the recipe of their rows: gains folded in, means removed
LIGHT = replace(RECIPE, probes=1, coordinates=2)  # with almost no sketch, to measure the weight of every unit
WIDE = 1024  # longer rows in coordinates of their own are kept in half precision, which is enough for rows of length 1
FEW = 4  # the fewest units for each kept one with which the kept units are taken out before rows are prepared
Weights = tuple[Vector, ...]  # of the units of each expert of a layer, or of a dense one, at most the layer's median
Known = MutableMapping[int, Weights]


def everything(experts: Sequence[Vector]) -> list[Numbers]:
    """Keep all units."""
    return [np.arange(len(weight)) for weight in experts]


def in_the_same_places(most: int, seed: int) -> Keep:
    """Return a rule that keeps about `most` units of a layer, nested in `most`, in all experts at the same places."""

    def keep(experts: Sequence[Vector]) -> list[Numbers]:
        total = sum(map(len, experts))
        if len(experts) == 1 or total <= most:
            return everything(experts)
        places = []
        for size in map(len, experts):
            words = random_stream(f"units of experts {seed} {size}").random_raw(size)
            places.append(np.sort(np.argsort(words, kind="stable")[: max(size * most // total, 1)]))
        return places

    return keep


def heaviest(most: int) -> Keep:
    """Return a rule that keeps the units of a layer that write most, whatever their order."""

    def keep(experts: Sequence[Vector]) -> list[Numbers]:
        ends = np.cumsum([len(weight) for weight in experts])
        if ends[-1] <= most:
            return everything(experts)
        chosen = np.sort(np.argsort(-np.concatenate(experts), kind="stable")[:most])
        starts = [0, *ends[:-1].tolist()]
        parts = np.split(chosen, np.searchsorted(chosen, starts[1:]))
        return [part - start for part, start in zip(parts, starts, strict=True)]

    return keep


def experts_of(sets: Sequence[LayerSet]) -> tuple[tuple[int, ...], ...]:
    """Return the number of units of each expert, for each term of a layer; one number for a dense layer."""
    # A shared expert several times as large as the others counts as several experts of their size: if both were made of
    # one dense layer, its units have a similar order in all of them.
    sizes = [one.units for one in sets for _ in range(math.prod(one.stacked))]
    least = min(sizes)
    if least <= SMALLEST:
        return tuple((size,) for size in sizes)
    return tuple((least,) * (size // least) if size % least == 0 else (size,) for size in sizes)


class KnownWeights(NamedTuple):
    """The weights of the units of some layers, by the number of the layer."""

    weights: Mapping[int, Weights] = MappingProxyType({})
    exact: bool = True  # whether all coordinates of the units were read, and not some of them


def known_weights(signature: Signature | None, layout: Layout) -> KnownWeights:
    """Return the weights of the hidden units of a signature's layers, if it has the usual recipe; else none."""
    recipe = signature and replace(RECIPE, probes=signature.recipe.probes, coordinates=signature.recipe.coordinates)
    if signature is None or PATH not in signature.paths or signature.recipe != recipe:
        return KnownWeights()
    path, numbers = signature.paths[PATH], signature.numbers(PATH)
    pairs = zip(numbers, path.units, strict=False)
    weights = {number: _by_expert(units.weight, layout, number) for number, units in pairs}
    return KnownWeights(weights, path.sampled is None)


def _by_expert(weight: Array | Vector, layout: Layout, number: int) -> Weights:
    ends = accumulate((size for own in experts_of(layout.sets(PATH)[number]) for size in own), initial=0)
    return tuple(weight[start:stop].astype(np.float64) for start, stop in pairwise(ends))


def obstacle(layout: Layout) -> str:
    """Return why the hidden units of a model are not compared one by one, as a phrase after its name; else empty."""
    if PATH not in layout.paths:
        return "has no MLP"
    return "has layers of different widths" if len(set(layout.widths)) > 1 else ""


@dataclass(frozen=True)
class View:
    """The coordinates, scaling and choice of units in which a layer is read."""

    through: Array | None = None  # (s, d): units are multiplied with it; None for the coordinates of their own stream
    of_length_one: bool = False  # whether the rows of a unit are scaled to length 1, or over the whole rows' length
    keep: Keep = everything  # the rule that chooses the units of a layer with experts that are held in memory
    gates: bool = True  # whether the gates of gated units are seen

    def rows(self, rows: Array, norms: Vector) -> Array | Vector:
        """Return rows (u, d) of these norms (u,) in the coordinates and the scaling of the view."""
        projected: Array | Vector = (rows if self.through is None else rows @ self.through.T) * _over(norms)
        return projected * _over(np.sqrt(np.vecdot(projected, projected))) if self.of_length_one else projected


def _over(norms: Vector) -> Vector:  # one over each norm, (u, 1); 0 for a row of zeros
    return np.asarray(np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)[:, None])


def unit_rows(
    checkpoint: Checkpoint, layout: Layout, layers: Collection[int], view: View, known: Known | None = None
) -> dict[int, UnitRows]:
    """Return the hidden units of each of these layers that has an MLP; weights not `known` are measured and added."""
    known = {} if known is None else known
    rows, memory = dict[int, UnitRows](), Memory()
    with workers() as share:

        def open_reader(names: tuple[str, ...]) -> Read:
            return open_tensors(checkpoint, names, (), memory, share).__getitem__

        for number in (number for number in layout.numbers(PATH) if number in layers):
            recipe = replace(RECIPE, gates=view.gates)
            checkpoint.prefetch(*tensors(layout, PATH, number, recipe))
            terms = functools.partial(terms_by_expert, layout, PATH, number, recipe, open_reader)
            if number not in known:
                surveys = [measure_units(term, Probes.draw(LIGHT, term.reader.shape[1]), share) for term in terms()]
                cap(surveys)
                known[number] = _by_expert(np.concatenate([units.norm for units in surveys]), layout, number)
            rows[number] = _layer(terms(), experts_of(layout.sets(PATH)[number]), known[number], view, share)
    return rows


def _layer(
    branch: Iterable[MatrixProduct], experts: Sequence[Sequence[int]], parts: Weights, view: View, share: Share
) -> UnitRows:
    """Return the kept hidden units of a layer, as they are seen."""
    kept = view.keep(parts)
    projected, first = list[tuple[Array, Array, Array, Vector]](), 0
    for term, own in zip(branch, experts, strict=True):
        starts = accumulate(own[:-1], initial=0)
        places = [part + start for part, start in zip(kept[first : first + len(own)], starts, strict=True)]
        projected.append(_project_units(term, np.concatenate(places), view, share))
        first += len(own)
    inner, outer, gate = (np.concatenate([one[side] for one in projected]) for side in range(3))
    norms = np.concatenate([one[3] for one in projected], axis=1)
    chosen = np.concatenate([part[places] for part, places in zip(parts, kept, strict=True)])
    counts = tuple(map(len, kept)) if len(parts) > 1 else ()
    return UnitRows(inner, outer, gate, chosen, norms, counts, len(chosen) / max(sum(map(len, parts)), 1))


def _project_units(term: MatrixProduct, kept: Numbers, view: View, share: Share) -> tuple[Array, Array, Array, Vector]:
    """Return readers, writers and gates of the kept units, (u, s) each, and the norms of readers and writers (2, u)."""
    if len(kept) * FEW < len(term.reader):  # so that the others are not prepared
        writer, reader = np.asarray(term.writer)[:, kept], np.asarray(term.reader)[kept]
        gate_rows = term.gate and replace(term.gate, stored=np.asarray(term.gate.stored)[kept])
        gain = None if term.unit_gain is None else term.unit_gain[kept]
        term = replace(term, writer=writer, reader=reader, unit_gain=gain, gate=gate_rows)
        kept = np.arange(len(kept))
    places = np.full(len(term.reader), -1)
    places[kept] = np.arange(len(kept))
    width = term.reader.shape[1] if view.through is None else len(view.through)
    widths = (width, width, width if term.gate else 0)
    inner, outer, gate = (np.empty((len(kept), size), np.float16 if size > WIDE else np.float32) for size in widths)
    sizes = np.empty((3, len(kept)))

    def note(starts: Iterator[int]) -> None:
        for tile in term.tiles(starts):
            here = places[tile.units]
            mine = here >= 0
            for side, (target, rows) in enumerate(((inner, tile.inn), (outer, tile.out), (gate, tile.gate))):
                if rows is None:
                    continue
                chosen = np.asarray(rows) if mine.all() else np.asarray(rows)[mine]
                sizes[side, here[mine]] = norms = row_norms(chosen)
                target[here[mine]] = view.rows(chosen, norms)

    share(note, term.starts)
    return inner, outer, gate, sizes[:2]


def head_products(checkpoint: Checkpoint, layout: Layout, layer: int, through: Array) -> HeadProducts | None:
    """Return the heads of a layer, seen through a matrix (s, d); None where it has none."""
    norms, products = list[Vector](), list[Array]()
    checkpoint.prefetch(*tensors(layout, HEADS, layer, RECIPE))
    for term in matrix_products(layout, HEADS, layer, RECIPE, checkpoint.read):
        for tile in term.tiles():
            norms.append(part_norms(tile.out, tile.inn, term.part))
            out, inn = ((rows @ through.T).reshape(-1, term.part, len(through)) for rows in (tile.out, tile.inn))
            products.append((out.mT @ inn).reshape(len(out), -1))
    if not norms:
        return None
    weight, directions = np.concatenate(norms), np.concatenate(products)
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    np.divide(directions, lengths, out=directions, where=lengths > 0)
    return HeadProducts(directions, np.minimum(weight, median_norm(weight)))
