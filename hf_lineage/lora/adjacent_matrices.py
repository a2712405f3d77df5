"""Adjacent matrices: what an adapter adds to each matrix, and the matrix that its gradient passed through."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.architecture.layout import Layout
from hf_lineage.checkpoint.tensor import single
from hf_lineage.errors import CheckpointError, printable
from hf_lineage.lora.adapter import Lora
from hf_lineage.lora.placement import (
    COORDINATES,
    DIMENSIONS,
    IN_TURN,
    LATENT,
    NEEDS,
    ROWS,
    SCORED,
    UNITS,
    Place,
    after,
    flips,
    unembedding,
)
from hf_lineage.lora.replicates import Block, block, compressed, product_rows
from hf_lineage.signature.factors import Read, gain, oriented, reader, unpacked, writer
from hf_lineage.signature.recipe import Array

if TYPE_CHECKING:
    from hf_lineage.source.headers import Opened


MOST_TOKENS = 2048
"""Rows of the unembedding that are read, the first ones: those of the most frequent tokens in most vocabularies."""


class Product(NamedTuple):
    """The product that is added to one matrix."""

    rows: Array
    """(rows, q), with q = 0 where nothing is added."""
    size: float
    """The root mean square of its numbers."""


class Partner(NamedTuple):
    """The matrix of the base that a gradient passed through."""

    seen: Array
    """(g, k, n)"""
    usual: float
    """The root mean square of its numbers."""


Products = Mapping[tuple[str, int | None], Product]
"""Module and expert -> product that is added to its matrix."""


def products(lora: Lora, places: Collection[Place]) -> Products:
    """Return what is added to each place; CheckpointError for factors that are not finite."""
    added: dict[tuple[str, int | None], Product] = {}
    modules = dict.fromkeys(place.module for place in places)
    lora.prefetch(modules)
    for module in modules:
        second, first = lora.read(module)
        if not finite(second, first):
            raise CheckpointError(f"the factors of {printable(module, 200)} are not finite; the adapter is damaged")
        for expert in dict.fromkeys(place.expert for place in places if place.module == module):
            # peft lists the rank of A by expert, and the experts of B by rank.
            count, rank = lora.modules[module].experts, lora.modules[module].rank
            mine = (second, first) if expert is None else (second[:, expert::count], first[expert * rank :][:rank])
            added[module, expert] = Product(product_rows(*mine), lora.scale(module) * typical(*mine))
    return added


def blocks(base: Opened, added: Products, places: Collection[Place]) -> Iterator[Block]:
    """Yield what is tested of each of these places; a product that is zero is left out.

    Raise CheckpointError for a base whose weights are not finite.
    """
    read = functools.lru_cache(maxsize=1)(base.checkpoint.read)  # experts of one stack follow one another
    partners: dict[tuple[int, int, int | None, str], Partner] = {}
    for place in places:
        rows, size = added[place.module, place.expert]
        if not rows.shape[1]:
            continue
        kind = ROWS[place.role]
        key = (
            place.layer,
            place.layer_set.expert,
            place.expert,
            place.layer_set.slots["down"].tensor if kind == UNITS else place.slot.tensor + place.role,
        )
        if key not in partners:
            partners[key] = _partner(base, place, read)
        seen, usual = partners[key]
        relative = size / usual if usual > 0 else np.inf
        written = _grouped(rows, place)
        if kind == COORDINATES and base.layout.factorization.normalization == "layer_norm":
            # LayerNorm took a mean from the gradient, which flipped rows would lose again: the median tells it.
            written = written - np.median(written, axis=1, keepdims=True)
        yield block(place.role, place.layer, kind, written, seen, relative, flips(place))


def _grouped(rows: Array, place: Place) -> Array:
    """Return the rows of one role in their exchangeable groups (g, n, q)."""
    kind = ROWS[place.role]
    if kind == COORDINATES:
        return rows[None]
    if place.role == LATENT:
        return rows[None, : place.latent]
    apart = place.expert is not None and len(place.slot.roles) == 1
    if apart:  # one after the other in memory, and by themselves on disk
        return rows.reshape(-1, place.layer_set.units, rows.shape[1])[[IN_TURN.index(place.role)]]
    mine = unpacked(rows, place.layer_set, place.slot)
    return mine.reshape(1, -1, rows.shape[1]) if kind == UNITS else mine


def _partner(base: Opened, place: Place, read: Read) -> Partner:
    """Return the matrices that a gradient passed through, as the test uses them; one of them is in memory at a time."""
    usual = 0.0

    def parts() -> Iterator[tuple[Array, float]]:
        nonlocal usual
        for part in _needed(base, place, read):
            norm = float(np.linalg.norm(part))
            if not math.isfinite(norm):
                raise CheckpointError(f"weights in layer {place.layer} of {base.described.repo} are not finite")
            usual = max(usual, norm / math.sqrt(part.size))
            yield _by_group(part, place), 1 / norm if norm > 0 else 0.0

    return Partner(compressed(parts(), place.role), usual)


def _needed(base: Opened, place: Place, read: Read) -> Iterator[Array]:
    """Yield the matrices that the gradient of the rows of a place passed through, (rows, n)."""
    if ROWS[place.role] == COORDINATES:
        yield from _of_stream(base, place, read)
    elif place.role == LATENT:
        rows = single(oriented(base.layout, place.slot, read))
        yield rows * gain(base.layout, place.layer_set, place.slot.latent[1], read)
    else:
        yield _of_units(base.layout, place, read)


def _of_units(layout: Layout, place: Place, read: Read) -> Array:
    """Return the matrix that writes the output of a place into the stream, or multiplies its heads, (width, n)."""
    needed, layer_set = NEEDS[place.role], place.layer_set
    if ROWS[place.role] == SCORED:
        heads: Array = single(np.asarray(reader(layout, layer_set, needed, read, gains=True))).T
        return heads
    out = single(writer(layout, layer_set, needed, read))
    if layer_set.stacked and place.expert is not None:
        out = out[:, place.expert * layer_set.units :][:, : layer_set.units]
    return out


def _of_stream(base: Opened, place: Place, read: Read) -> Iterator[Array]:
    """Yield the matrices that read the stream next after a place, the gains of norms folded in, (rows, width).

    The unembedding is used only after the last layer; with the next layer it would only weaken the trace.
    """
    layout, tokens = base.layout, unembedding(base)
    readers = list(after(layout, place))
    for layer_set, role in readers:
        rows = single(np.asarray(reader(layout, layer_set, role, read, gains=True)))
        yield rows if layer_set.norm is None else rows * gain(layout, layer_set, layer_set.norm, read)
    if not readers and tokens is not None:
        stored = base.checkpoint.rows(tokens)
        few = None if stored is None else [stored.tensor.rows(slice(MOST_TOKENS))]
        yield single(read(tokens)[:MOST_TOKENS] if few is None else base.checkpoint.read_pieces(tokens, few))


def _by_group(matrix: Array, place: Place) -> Array:
    """Return a matrix (rows, n) by exchangeable groups of columns (g, rows, n), heads that share one as more rows."""
    if ROWS[place.role] not in (DIMENSIONS, SCORED):
        return matrix[None]
    heads = place.layer_set.heads[place.role]
    apart = matrix.reshape(len(matrix), heads.count, -1, heads.size).transpose(1, 0, 2, 3)
    return apart.reshape(heads.count, -1, heads.size)


def typical(second: Array, first: Array) -> float:
    """Return the root mean square of the numbers of a product B A, without making it."""
    wide, narrow = first.astype(np.float64), second.astype(np.float64)
    squares = max(float(np.sum((narrow.T @ narrow) * (wide @ wide.T))), 0.0)
    return math.sqrt(squares / (len(narrow) * wide.shape[1]))


def finite(*factors: NDArray[np.float32]) -> bool:
    """Return whether all numbers of some factors are finite."""
    return all(math.isfinite(float(np.sum(factor, dtype=np.float64))) for factor in factors)
