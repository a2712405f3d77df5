"""Descriptions of hidden units: numbers that no change of the residual coordinates, and no order of units, changes.

Where Q turns the stream of a model, it turns what units read and write, a and b, and every form of all units with
them, such as A = Σ n a aᵀ. So aᵀ A a, or aᵀ A b, is the same number in any coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hf_lineage.signature.recipe import Array

FURTHEST = 8.0
"""A number of a description lies at most so many mean deviations from the median, so that none outweighs all others."""


def described(inner: Array, outer: Array, weight: Array) -> Array:
    """Numbers about each unit that no change of coordinates, and no order of units, changes: (u, f)."""
    numbers = [np.vecdot(inner, outer)]
    for form in _forms(inner * weight[:, None], outer * weight[:, None], inner, outer):
        read, written = inner @ form, outer @ form
        numbers += [np.vecdot(*pair) for pair in ((read, inner), (read, outer), (written, outer), (written, inner))]
    described = np.stack(numbers, axis=1)
    described -= np.median(described, axis=0)
    described /= np.abs(described).mean(axis=0) + 1e-30
    return described.clip(-FURTHEST, FURTHEST)


def _forms(weighed_inner: Array, weighed_outer: Array, inner: Array, outer: Array) -> Iterator[Array]:
    """Forms (d, d) of all units, and products of two of them."""
    read, written, product = weighed_inner.T @ inner, weighed_outer.T @ outer, weighed_outer.T @ inner
    yield from (read, written, product, read @ read, written @ written, product @ product, product @ product.T)
    yield from (product.T @ product, read @ written, product @ read, written @ product)
