"""Key: a short code of a model that picks its relatives among many, and the coordinates on which they are tested.

A candidate that was picked because its numbers are alike cannot be tested on the same numbers. So the test coordinates
S of a signature are divided: the key is made of the residuals on one half, R[S₂, S₂], and the test permutes the other
half. Permuting S₁ leaves the key as it is, so that the test stays exact, whatever the key selects.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hf_lineage.signature import Array, PathSignature, Signature, random_stream, signs

VERSION = 1
"""Raised when keys are made in another way; those of another version are not compared."""
BITS = 2048
"""Signs of a key: the cosine of two keys is then known to ±.035."""

Key = NDArray[np.uint8]
"""(BITS / 8,): packed signs."""
_COSINES = np.cos(np.pi * np.arange(BITS + 1) / BITS).astype(np.float32)
"""Cosines by the number of unlike signs."""


def key_of(path: PathSignature) -> Key:
    """Return the key of a model along one path: signs of random sums over its residuals, of all layers together.

    Layers of unrelated residuals are nearly orthogonal. So the cosine of two such sums is close to the mean cosine of
    the layers of two models, in whatever order these stand.
    """
    chosen, _ = halves(path.corner.shape[1])
    blocks = _among(path.corner, chosen).reshape(len(path.corner), -1)
    sizes = np.linalg.norm(blocks, axis=1, keepdims=True)
    total = np.divide(blocks, sizes, out=np.zeros_like(blocks), where=sizes > 0).sum(axis=0)
    return np.packbits(_projection(len(total)) @ total > 0)


def similarities(key: Key, keys: NDArray[np.uint8]) -> Array:
    """Return the estimated cosine of a key with each of several, (n,): cos(π x) for a share x of unlike signs."""
    unlike = np.bitwise_count(keys.view(np.uint64) ^ key.view(np.uint64))
    cosines: Array = _COSINES[np.einsum("ij->i", unlike, dtype=np.uint16)]
    return cosines


def for_testing(signature: Signature, path: str) -> Signature:
    """Return a signature of one path whose test coordinates are those that its key is not made of."""
    whole = signature.paths[path]
    _, chosen = halves(whole.corner.shape[1])
    corner = _among(whole.corner, chosen)
    return replace(
        signature,
        recipe=replace(signature.recipe, coordinates=len(chosen)),
        paths={path: replace(whole, corner=np.ascontiguousarray(corner))},
    )


def halves(size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the coordinates of the key and of the test, among so many; drawn once and for ever."""
    order = np.argsort(random_stream(f"index {VERSION} {size}").random_raw(size), kind="stable")
    return np.sort(order[: size // 2]), np.sort(order[size // 2 :])


def _among(corner: Array, chosen: NDArray[np.int64]) -> Array:
    """Return rows and columns of some coordinates of every residual (L, m, m)."""
    part: Array = corner[:, chosen][:, :, chosen]
    return part


@functools.lru_cache(maxsize=4)
def _projection(size: int) -> Array:
    return signs(f"index {VERSION} key {size}", (BITS, size))
