"""Head products: the product of the matrices of each head of a layer, in coordinates that another model has as well.

Any invertible change between the value and the output matrix of a head leaves its function as it is. So the product of
the two matrices is compared, and not each matrix by itself.
"""

from __future__ import annotations

import numpy as np

from hf_lineage.architecture import Layout
from hf_lineage.checkpoint import Checkpoint
from hf_lineage.signature.products import matrix_products, median_norm, part_norms, tensors
from hf_lineage.signature.recipe import Array, Vector
from hf_lineage.signature.units.extraction import RECIPE
from hf_lineage.signature.units.rows import HEADS, HeadProducts


def head_products(checkpoint: Checkpoint, layout: Layout, layer: int, through: Array) -> HeadProducts | None:
    """Return the heads of a layer, seen through a matrix (s, d); None where it has none.

    Raise as `Checkpoint.read` does.
    """
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
