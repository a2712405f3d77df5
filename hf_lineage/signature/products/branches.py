"""Branch: one path through one layer as a sum of matrix products, oriented, unpacked and prepared for the recipe.

Every path has the same form, M = Σ a_u out @ inn with `out` (width, h) and `inn` (h, width), one term for each matrix
set, and a_u = 1 unless the recipe weighs hidden units by their expected activity. The experts of a mixture are terms
side by side; heads of keys and values are repeated to line up with those of the queries.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture import LayerSet, Layout
from hf_lineage.architecture.activity import Activation
from hf_lineage.architecture.activity import expected as activity
from hf_lineage.architecture.registry import PATHS, Path
from hf_lineage.checkpoint import single
from hf_lineage.errors import CheckpointError
from hf_lineage.signature.computing import alone
from hf_lineage.signature.products.matrices import Matrix, Read, activation, bias, by_rows, gain, reader, shift, writer
from hf_lineage.signature.products.matrix_product import Beside, Inside, MatrixProduct, Rows
from hf_lineage.signature.recipe import Array, Recipe, Vector, random_stream


def matrix_products(layout: Layout, path: str, layer: int, recipe: Recipe, read: Read) -> Iterator[MatrixProduct]:
    """Yield the terms of one branch with the recipe's `gains`, `means` and `activity`, but without its `cap`."""
    routers: dict[str, Vector] = {}
    recipe = _with_gates(layout, path, layer, recipe)
    for layer_set in layout.sets(path)[layer]:
        yield _Set(layout, layer_set, recipe, read, routers).term(PATHS[path])


def tensors(layout: Layout, path: str, layer: int, recipe: Recipe) -> tuple[str, ...]:
    """Return the names of the tensors that one branch reads, each once."""
    sets, recipe = layout.sets(path)[layer], _with_gates(layout, path, layer, recipe)
    return tuple(dict.fromkeys(name for layer_set in sets for name in _names(layer_set, PATHS[path], recipe)))


def _with_gates(layout: Layout, path: str, layer: int, recipe: Recipe) -> Recipe:
    """The recipe, which compares the gates of a layer only if all of its sets have one."""
    other = OTHER_READER.get(PATHS[path].reader, "")
    return replace(recipe, gates=recipe.gates and all(other in one.slots for one in layout.sets(path)[layer]))


def read_by_rows(layout: Layout, path: str, layer: int) -> set[str]:
    """Return the names of the tensors of one branch that are read some rows at a time and never as a whole."""
    return {
        layer_set.slots[role].tensor
        for layer_set in layout.sets(path)[layer]
        for role in ("gate", "up")
        if role in layer_set.slots and by_rows(layout, layer_set, role)
    }


def numbers_made(layout: Layout, path: str, layer: int) -> int:
    """Return how many numbers one branch computes: heads that read a latent are multiplied out to the stream."""
    through = (
        layer_set
        for layer_set in layout.sets(path)[layer]
        for role in PATHS[path].roles
        if layer_set.slots[role].latent
    )
    return sum(layer_set.width * layer_set.units for layer_set in through)


def _names(layer_set: LayerSet, path: Path, recipe: Recipe) -> Iterator[str]:
    yield from layer_set.read_by(*path.roles)
    if recipe.gates and (other := OTHER_READER.get(path.reader, "")) in layer_set.slots:
        yield from layer_set.read_by(other)
    if not recipe.activity:
        return
    if path.weighed_by is not None:
        yield from _names(layer_set, PATHS[path.weighed_by], recipe)
    if layer_set.activation is not None:
        roles = dict.fromkeys((_activated(layer_set), "up"))
        yield from layer_set.read_by(*roles)
        needed = (
            *(layer_set.slots[role].tensor for role in roles),
            layer_set.norm,
            layer_set.fed_by,
            layer_set.router,
            layer_set.correction,
            layer_set.table,
            *layer_set.learned,
        )
        present = [name for name in needed if name]
        yield from present
        yield from (layer_set.biases[name] for name in present if name in layer_set.biases)


def _activated(layer_set: LayerSet) -> str:
    """The role whose output is the input of the activation."""
    return "gate" if "gate" in layer_set.slots else "up"


@dataclass(frozen=True)
class _Set:
    """A matrix set of one layer, with everything that its terms depend on."""

    layout: Layout
    layer_set: LayerSet
    recipe: Recipe
    read: Read
    routers: dict[str, Vector]
    """Router -> probability of each of its experts (experts,), computed once for all sets of one layer."""

    @property
    def _layer_norm(self) -> bool:
        return self.layout.factorization.normalization == "layer_norm"

    @property
    def _centred(self) -> bool:
        return self.recipe.means and self._layer_norm

    def term(self, path: Path) -> MatrixProduct:
        """Return the term that the set adds to a path."""
        if path.weighed_by is not None:
            return self._weighed(path, PATHS[path.weighed_by])
        layer_set = self.layer_set
        inside = self._inside(path)
        return MatrixProduct(
            writer(self.layout, layer_set, path.writer, self.read),
            self._reads(path.reader),
            layer_set.heads[path.reader].size,
            writer_gain=self._folded(layer_set.output_norm),
            reader_gain=self._folded(layer_set.norm),
            reader_shift=shift(layer_set, layer_set.norm, self.read) if inside else None,
            unit_gain=self._folded(layer_set.inner_norm),
            centred=self._centred,
            normed=layer_set.normed and self.recipe.gains,
            inside=inside,
            gate=self._gate(path),
            measured=layer_set.measured if self.recipe.activity else None,
        )

    def _gate(self, path: Path) -> Rows | None:
        """The other reader of gated units; None where there is none, or the recipe does not compare it."""
        other = OTHER_READER.get(path.reader, "")
        return self._rows(other) if self.recipe.gates and other in self.layer_set.slots else None

    def _weighed(self, path: Path, by: Path) -> MatrixProduct:
        """The term of a path whose two matrices both read the stream."""
        norm, size = self._folded(self.layer_set.norm), self.layer_set.heads[path.writer].size
        out, inn = (np.asarray(self._reads(role)) for role in (path.writer, path.reader))
        weigh = self.term(by) if self.recipe.activity else None
        return MatrixProduct(out.mT, inn, size, norm, norm, centred=self._centred, weigh=weigh)

    def _reads(self, role: str) -> Matrix:
        return reader(self.layout, self.layer_set, role, self.read, self.recipe.gains)

    def _folded(self, norm: str | None) -> Array | None:
        return gain(self.layout, self.layer_set, norm, self.read) if self.recipe.gains and norm else None

    def _inside(self, path: Path) -> Inside | None:
        """The values on which the activity of hidden units depends; None where all units count in full."""
        layer_set = self.layer_set
        if not self.recipe.activity or (activated := activation(layer_set, self.read)) is None:
            return None
        role = _activated(layer_set)
        mean = activity.mean_steepness if path.reader == "gate" else _MEANS[role]
        as_prepared = role == path.reader and self._folds_alike
        by_gate = self.recipe.gates and role != path.reader
        return Inside(
            functools.partial(mean, activated),
            rows=None if as_prepared or by_gate else self._rows(role),
            by_gate=by_gate,
            bias=self._bias(role),
            beside=self._beside(path, activated) if role == "gate" else None,
            odds=self._odds(),
        )

    def _beside(self, path: Path, activated: Activation) -> Beside | None:
        """The rows that a gate multiplies, and the factor that their spread, or their limit, adds to the activity."""
        limited = functools.partial(activity.share_inside, activated)
        if path.reader == "gate":
            return Beside(self._rows("up"), lambda spread, centre: spread * limited(spread, centre), self._bias("up"))
        return Beside(self._rows("up"), limited, self._bias("up")) if math.isfinite(activated.limit) else None

    def _bias(self, role: str) -> Array | None:
        return bias(self.layer_set, role, self.read)

    @property
    def _folds_alike(self) -> bool:
        """Whether the recipe prepares a reader just as its activity needs, so that it is prepared only once."""
        layer_set = self.layer_set
        return (
            self.recipe.gains
            and self._centred == self._layer_norm
            and not layer_set.fed_by
            and not layer_set.inner_norm
        )

    def _rows(self, role: str) -> Rows:
        """The rows of a role with the gain of the norm in front folded in, so that their input is standard normal."""
        return self._fed(reader(self.layout, self.layer_set, role, self.read, gains=True))

    def _fed(self, rows: Matrix) -> Rows:
        norm = self.layer_set.fed_by or self.layer_set.norm
        folded = gain(self.layout, self.layer_set, norm, self.read) if norm else None
        return Rows(rows, folded, self._layer_norm, shift(self.layer_set, norm, self.read))

    def _odds(self) -> Vector | None:
        """(h,): the probability that a token is sent to the expert of each unit."""
        layer_set = self.layer_set
        if layer_set.router is None or layer_set.routed is None:
            return None
        if layer_set.router not in self.routers:
            self.routers[layer_set.router] = self._routed(layer_set.router, layer_set.routed)
        odds = self.routers[layer_set.router]
        if not layer_set.stacked:
            return np.full(layer_set.units, odds[layer_set.expert])
        return np.repeat(odds[: math.prod(layer_set.stacked)], layer_set.units)

    def _routed(self, router: str, chosen: int) -> Vector:
        """(experts,): how probable it is that a token is sent to each of them."""
        from hf_lineage.architecture.activity import router as routing

        layer_set = self.layer_set
        rows = self._fed(self.read(router))
        spread, centre = rows.measured(alone)
        if router in layer_set.biases:
            centre = centre + single(self.read(layer_set.biases[router]))
        correction = layer_set.correction
        added = single(self.read(correction)).ravel().astype(np.float64) if correction else None
        table = self._table(len(centre))
        how = routing.Router(rows.products(), centre, chosen, added, layer_set.groups, layer_set.scores, table)
        odds = activity.routed(spread, centre, chosen, added, layer_set.scores)
        odds = odds if table is None else routing.listed(table, len(centre))
        return routing.counting(odds, how, random_stream(f"tokens of a router {len(odds)}"))

    def _table(self, experts: int) -> NDArray[np.int64] | None:
        """The experts of each token of the vocabulary, where a table chooses them."""
        if (name := self.layer_set.table) is None:
            return None
        table = np.asarray(self.read(name)).astype(np.int64)
        if table.min() < 0 or table.max() >= experts:
            raise CheckpointError(f"{name} names experts that its router does not have")
        return table


OTHER_READER = {"up": "gate", "gate": "up"}
"""Each of the two readers of a gated unit -> the other one."""
_MEANS = {"gate": activity.mean_value, "up": activity.mean_slope}
