"""Sample: some hidden units and residual coordinates of every layer, drawn at random, and the branch seen through them.

If hidden units are in the same places as those of the base, a tenth of the bytes shows the descent. A sample of all
units on some coordinates also shows units or layers that were moved, in a third of the time of reading everything.
Nobody must be able to predict the sample: they could copy that part only. Units are drawn anew in each layer, so layers
of base and candidate can only be alike where both have the same number.
"""

import functools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.layers import Heads, LayerSet
from hf_lineage.architecture.layout import Layout
from hf_lineage.architecture.paths import PATHS
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import StoredTensor, single
from hf_lineage.signature.devices import alone, workers
from hf_lineage.signature.extract import empty, put_block
from hf_lineage.signature.factors import by_rows, matrix_products
from hf_lineage.signature.matrix_product import MatrixProduct, Probes, Rows
from hf_lineage.signature.recipe import Recipe, random_stream
from hf_lineage.signature.residual import summarise
from hf_lineage.signature.values import PathSignature, SampleSize, UnitCodes

UNITS, RUN = 1024, 64  # hidden units of a layer that are read, and how many side by side: one request or read each
COORDINATES, NEIGHBOURS = 64, 4  # residual coordinates that are read, the same in all layers, and how many side by side
OF_ALL_UNITS, SIDE_BY_SIDE = 128, 8  # the same where all units of a layer are read
SAVES = 4  # a sampled layer has at least so many times as many units, and coordinates, as a sample reads

Runs = tuple[slice, ...]


@dataclass(frozen=True)
class Sample:
    """The random choice of units and coordinates of every layer; equal for all models of equal sizes."""

    seed: int
    all_units: bool = False  # whether no units are drawn, but all of a layer are read
    look: int = 0  # number of the draw of coordinates

    def coordinates_of(self, width: int) -> Runs:
        """Return the residual coordinates that are read, the same in all layers."""
        wanted, run = (OF_ALL_UNITS, SIDE_BY_SIDE) if self.all_units else (COORDINATES, NEIGHBOURS)
        return runs(width, wanted, run, f"sample {self.seed} coordinates{self.look or ''}")

    def units_of(self, layer_set: LayerSet, layer: int) -> Runs:
        """Return the hidden units of one layer that are read, or its heads of values."""
        count = (layer_set.heads.get("value") or layer_set.heads["up"]).count
        if self.all_units:
            return tuple(slice(start, min(start + UNITS, count)) for start in range(0, count, UNITS))
        if "value" not in layer_set.heads:
            return runs(count, UNITS, RUN, f"sample {self.seed} units {layer}")
        wanted = max(2, -(-4 * count // layer_set.heads["query"].count))  # groups of at least four query heads together
        return runs(count, wanted, 1, f"sample {self.seed} heads {layer}")


def runs(length: int, wanted: int, run: int, purpose: str) -> Runs:
    """Return about `wanted` of so many rows in runs of about `run` rows side by side; any of the rows may be drawn.

    >>> runs(100, wanted=20, run=10, purpose="example")
    (slice(30, 40, None), slice(70, 80, None))
    """
    count = length // run
    ends = np.linspace(0, length, count + 1).astype(int).tolist()
    drawn = np.argsort(random_stream(purpose).random_raw(count), kind="stable")[: wanted // run]
    return tuple(slice(ends[block], ends[block + 1]) for block in sorted(drawn.tolist()))


def fits(layout: Layout, checkpoint: Checkpoint, path: str) -> bool:
    """Return whether a few rows of a path's layers can be read alone and save much; False for decoded matrices."""
    if PATHS[path].bilinear:
        return False

    def fit(layer_set: LayerSet) -> bool:
        large = PATHS[path].branch != "mlp" or layer_set.units >= SAVES * UNITS
        if not large or layer_set.width < SAVES * COORDINATES:
            return False
        names = ((role, layer_set.slots[role].tensor) for role in _roles(layer_set, path))
        return all(by_rows(layout, layer_set, role) and checkpoint.rows(name) is not None for role, name in names)

    return all(len(layer) == 1 and fit(layer[0]) for layer in layout.sets(path))


def _roles(layer_set: LayerSet, path: str) -> tuple[str, ...]:
    return PATHS[path].roles if PATHS[path].branch != "mlp" else tuple(layer_set.slots)


@dataclass(frozen=True)
class _View:
    """One layer of a model, of which only the rows and columns of a sample are read."""

    checkpoint: Checkpoint
    layout: Layout
    layer_set: LayerSet
    recipe: Recipe
    path: str
    layer: int
    sample: Sample

    @functools.cached_property
    def coordinates(self) -> Runs:
        return self.sample.coordinates_of(self.layer_set.width)

    @functools.cached_property
    def units(self) -> Runs:
        return self.sample.units_of(self.layer_set, self.layer)

    @property
    def matrices(self) -> dict[str, str]:
        return {self.layer_set.slots[role].tensor: role for role in _roles(self.layer_set, self.path)}  # those read

    @property
    def part(self) -> int:
        return self.layer_set.heads[PATHS[self.path].reader].size  # rows of a unit, or of a head of values

    @property
    def queries_per_value(self) -> int:
        heads = self.layer_set.heads
        return heads["query"].count // heads["value"].count if "value" in heads else 1

    def pieces(self, tensor: str) -> list[StoredTensor]:
        rows = self.checkpoint.rows(tensor)
        assert rows is not None  # noqa: S101 - `fits` has checked it
        writer = self.layer_set.slots[PATHS[self.path].writer].tensor
        runs = self.coordinates if tensor == writer else _times(self.units, self.part)
        return [rows.tensor.rows(run) for run in runs]

    def term(self) -> MatrixProduct:
        """Return the term of the layer, both of its matrices (m, n) and (n, m) for m coordinates and n units."""
        count, served = len(indices(self.units)), {"query": self.queries_per_value}
        heads = {role: Heads(count * served.get(role, 1), self.part) for role in self.layer_set.heads}
        width = len(indices(self.coordinates)) if self.sample.all_units else self.layer_set.width
        branches = {PATHS[self.path].branch: ((replace(self.layer_set, heads=heads, width=width),),)}
        layout = replace(self.layout, branches=branches)
        (whole,) = matrix_products(layout, self.path, 0, self.recipe, functools.cache(self._read))
        if self.sample.all_units:
            return whole
        places = indices(self.coordinates)
        reader = _among(Rows(whole.reader, whole.reader_gain, whole.centred), places)
        writer_gain = None if whole.writer_gain is None else whole.writer_gain[places]
        gate = whole.gate and _among(whole.gate, places)
        return replace(whole, reader=reader.stored, reader_gain=reader.gain, writer_gain=writer_gain, gate=gate)

    def _read(self, name: str) -> NDArray[Any]:
        """Return a tensor of the layer: the rows of a matrix that are read, or a vector's numbers for these units."""
        layer_set, matrices = self.layer_set, self.matrices
        units = indices(_times(self.units, self.part * self.queries_per_value))
        if name in matrices:
            writes = matrices[name] == PATHS[self.path].writer
            if self.sample.all_units and not writes:  # a piece at a time, or whole matrices would be in memory
                places, pieces = indices(self.coordinates), self.pieces(name)
                return np.concatenate([self.checkpoint.read_pieces(name, [one]).take(places, axis=1) for one in pieces])
            rows = self.checkpoint.read_pieces(name, self.pieces(name))
            return rows.take(units, axis=1) if writes and not self.sample.all_units else rows
        inner = layer_set.inner_norm or ""
        by_unit = {inner, layer_set.variances.get(inner), *map(layer_set.biases.get, (*matrices, inner))}
        whole = self.checkpoint.read(name)
        if name in by_unit:
            return whole[units]
        if not self.sample.all_units or whole.shape != (layer_set.width,):
            return whole
        return np.asarray(single(whole[indices(self.coordinates)]))  # as if the stream had no others


def _among(rows: Rows, places: NDArray[np.int64]) -> Rows:
    return Rows(np.asarray(rows.stored)[:, places], None if rows.gain is None else rows.gain[places], rows.centred)


def _times(runs: Runs, factor: int) -> Runs:  # runs of parts with so many rows each as runs of rows
    return tuple(slice(run.start * factor, run.stop * factor) for run in runs)


def indices(runs: Runs) -> NDArray[np.int64]:
    """Return the numbers of the rows of some runs."""
    return np.concatenate([np.arange(run.start, run.stop) for run in runs])


def sample_path(
    checkpoint: Checkpoint, layout: Layout, recipe: Recipe, path: str, layers: Collection[int], sample: Sample
) -> PathSignature:
    """Return the signature of some layers of a path, ascending, as if each were what a sample reads of it."""
    sets = layout.sets(path)
    views = [_View(checkpoint, layout, sets[layer][0], recipe, path, layer, sample) for layer in sorted(layers)]
    first = views[0]
    size = len(indices(first.coordinates))
    result, units = empty(len(views), (size, size), size), dict[int, UnitCodes]()
    exact = replace(recipe, probes=None)
    probes = Probes.draw(exact, size)

    def fill(rows: Iterator[int]) -> None:
        for row in rows:
            block = summarise([views[row].term()], probes, exact, alone)
            put_block(result, row, block)
            units[row] = block.units

    try:
        checkpoint.prefetch_pieces(piece for view in views for tensor in view.matrices for piece in view.pieces(tensor))
        with workers() as share:
            share(fill, range(len(views)))
    finally:
        checkpoint.release()
    count = len(indices(first.units)) * first.part * first.queries_per_value
    read = SampleSize(count, first.layer_set.units, size, layout.width)
    return replace(result, units=tuple(units[row] for row in sorted(units)), sampled=read)
