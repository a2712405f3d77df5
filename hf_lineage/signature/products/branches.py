"""Branch: one path through one layer as a sum of matrix products, oriented, unpacked and prepared for the recipe.

Every path has the form M = Σ out @ inn with `out` (width, h) and `inn` (h, width), one term for each matrix set. The
experts of a mixture are terms side by side. Heads of keys and values are repeated to line up with those of the queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hf_lineage.architecture import LayerSet, Layout
from hf_lineage.architecture.registry import PATHS, Path
from hf_lineage.signature.products.matrices import Matrix, Read, by_rows, gain, reader, writer
from hf_lineage.signature.products.matrix_product import MatrixProduct, Rows
from hf_lineage.signature.recipe import Array, Recipe


def matrix_products(layout: Layout, path: str, layer: int, recipe: Recipe, read: Read) -> Iterator[MatrixProduct]:
    """Yield the terms of one branch with the recipe's `gains` and `means`, but without its `cap`."""
    recipe = _with_gates(layout, path, layer, recipe)
    for layer_set in layout.sets(path)[layer]:
        yield _Set(layout, layer_set, recipe, read).term(PATHS[path])


def tensors(layout: Layout, path: str, layer: int, recipe: Recipe) -> tuple[str, ...]:
    """Return the names of the tensors that one branch reads, each once."""
    sets, recipe = layout.sets(path)[layer], _with_gates(layout, path, layer, recipe)
    return tuple(dict.fromkeys(name for layer_set in sets for name in _names(layer_set, PATHS[path], recipe)))


def _with_gates(layout: Layout, path: str, layer: int, recipe: Recipe) -> Recipe:
    """Return the recipe, without gates unless all sets of the layer have one."""
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
    """Return the count of numbers that one branch computes: heads that read a latent are brought to the stream."""
    sets, roles = layout.sets(path)[layer], PATHS[path].roles
    through = (layer_set for layer_set in sets for role in roles if layer_set.slots[role].latent)
    return sum(layer_set.width * layer_set.units for layer_set in through)


def _names(layer_set: LayerSet, path: Path, recipe: Recipe) -> Iterator[str]:
    yield from layer_set.read_by(*path.roles)
    if recipe.gates and (other := OTHER_READER.get(path.reader, "")) in layer_set.slots:
        yield from layer_set.read_by(other)


@dataclass(frozen=True)
class _Set:
    """A matrix set of one layer, with all values that its terms depend on."""

    layout: Layout
    layer_set: LayerSet
    recipe: Recipe
    read: Read

    @property
    def _centred(self) -> bool:
        return self.recipe.means and self.layout.factorization.normalization == "layer_norm"

    def term(self, path: Path) -> MatrixProduct:
        """Return the term that the set adds to a path."""
        if path.bilinear:
            return self._bilinear(path)
        layer_set = self.layer_set
        return MatrixProduct(
            writer(self.layout, layer_set, path.writer, self.read),
            self._reads(path.reader),
            layer_set.heads[path.reader].size,
            writer_gain=self._folded(layer_set.output_norm),
            reader_gain=self._folded(layer_set.norm),
            unit_gain=self._folded(layer_set.inner_norm),
            centred=self._centred,
            gate=self._gate(path),
        )

    def _gate(self, path: Path) -> Rows | None:
        """Return the other reader of gated units; None where there is none, or the recipe does not compare it."""
        other = OTHER_READER.get(path.reader, "")
        if not self.recipe.gates or other not in self.layer_set.slots:
            return None
        return Rows(self._reads(other), self._folded(self.layer_set.norm), self._centred)

    def _bilinear(self, path: Path) -> MatrixProduct:
        """Return the term of a path whose two matrices both read the stream."""
        norm, size = self._folded(self.layer_set.norm), self.layer_set.heads[path.writer].size
        out, inn = (np.asarray(self._reads(role)) for role in (path.writer, path.reader))
        return MatrixProduct(out.mT, inn, size, norm, norm, centred=self._centred)

    def _reads(self, role: str) -> Matrix:
        return reader(self.layout, self.layer_set, role, self.read, self.recipe.gains)

    def _folded(self, norm: str | None) -> Array | None:
        return gain(self.layout, self.layer_set, norm, self.read) if self.recipe.gains and norm else None


OTHER_READER = {"up": "gate", "gate": "up"}
"""Each of the two readers of a gated unit -> the other one."""
