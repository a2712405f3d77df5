"""Adjacent matrices: what an adapter adds to each matrix, and the matrix that its gradient passed through."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.tensor import single
from hf_lineage.errors import CheckpointError, printable
from hf_lineage.lora import placement
from hf_lineage.lora.adapter import Lora
from hf_lineage.lora.placement import COORDINATES, LATENT, NEEDS, ROWS, UNITS, Place
from hf_lineage.signature.factors import Read, gain, orient_matrix, reader, unpack_heads, writer
from hf_lineage.signature.recipe import Array, Vector
from hf_lineage.signature.recipe import signs as random_signs

if TYPE_CHECKING:
    from hf_lineage.source.headers import Headers


DIRECTIONS, FEWEST_DIRECTIONS = 32, 8  # the largest directions of B A that are tested, and the fewest of many rows
EXACT = 256  # up to so many columns, a matrix of the base is used as a whole, because its Gram matrix is small
PROBES, FEWEST_PROBES = 128, 32  # a wider one is reduced to so many random sums of its rows, a very wide one to fewer
SEEN, WRITTEN = 2**18, 2**16  # the most numbers of it, and of what is added, that a permutation multiplies
MOST_TOKENS = 2048  # rows of the unembedding that are read, the first: the most frequent tokens in most vocabularies


@dataclass(frozen=True)
class Block:
    """One adapted matrix, and the matrix of the base that its gradient passed through."""

    role: str  # role of the matrix in its layer: up, gate, value, output or down
    layer: int
    permuted: str  # kind of its rows; rows of the same kind and number get the same permutation in all blocks
    rows: Array  # (g, n, q): the rows of U Σ^½ in their g exchangeable groups
    through: Array  # (g, k, n): the matrix of the base seen through probes, each row's mean in a group removed
    size: float = 0.0  # the size of the added numbers relative to those of the base (root mean squares)
    flips: bool = False  # whether a row may change its sign, together with what reads it

    @property
    def centred_rows(self) -> Array:
        """(g, n, q): the rows, each column's mean in a group removed."""
        return np.asarray(self.rows - self.rows.mean(axis=1, keepdims=True))

    @property
    def energies(self) -> Vector:
        """(n,): how much is added to each row, in all groups together, over their mean."""
        energies = np.square(self.rows, dtype=np.float64).sum(axis=(0, 2))
        return np.asarray(energies / (energies.mean() or 1.0))

    @property
    def directions(self) -> float:
        """The effective number of directions, 1 / Σ p² with p the part of each in the sum of singular values."""
        parts = np.sum(np.square(self.centred_rows, dtype=np.float64), axis=(0, 1))
        return float(parts.sum() ** 2 / np.square(parts).sum()) if parts.any() else 0.0


def product_rows(second: Array, first: Array) -> Array:
    """Return U Σ^½ of the singular value decomposition B A = U Σ Vᵀ up to a factor, (rows, q) with q <= DIRECTIONS."""
    # They depend only on the product; q is 0 if it is zero. The root lets weaker directions count more than in B A
    # itself, because all of them are gradients.
    wide, narrow = first.astype(np.float64), second.astype(np.float64)
    rows = narrow @ _root(wide @ wide.T)
    squares, vectors = np.linalg.eigh(rows.T @ rows)
    most = max(FEWEST_DIRECTIONS, min(DIRECTIONS, WRITTEN // len(rows)))
    kept = np.argsort(squares)[::-1][:most]
    kept = kept[squares[kept] > squares.max(initial=0.0) * 1e-12]  # less is rounding, or dead rank
    largest = squares.max(initial=0.0) ** 0.25
    return np.asarray(rows @ (vectors[:, kept] / squares[kept] ** 0.25) / (largest or 1.0), np.float32)


def _root(gram: Vector) -> Vector:
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors * np.sqrt(np.clip(values, 0.0, None))[..., None, :])


def compress(parts: Iterable[tuple[Array, float]], purpose: str) -> Array:
    """Return (g, k, n) with the summed Gram matrices of weighted parts, or estimates for more columns than EXACT."""
    gram: Vector = np.zeros(())
    sums: NDArray[Any] = np.zeros((), np.float32)
    for number, (part, weight) in enumerate(parts):
        rows, columns = part.shape[1:]
        if columns <= EXACT:
            gram = gram + weight**2 * (part.mT @ part)
        else:
            probes = max(FEWEST_PROBES, min(PROBES, SEEN // columns))
            drawn = random_signs(f"adapter probes {purpose} {number} {rows}", (probes, rows))
            sums = sums + drawn * np.float32(weight / np.sqrt(probes)) @ part
    return _root(gram).mT.astype(np.float32) if gram.ndim else sums


def block(
    role: str, layer: int, permuted: str, written: Array, through: Array, size: float = 0.0, flips: bool = False
) -> Block:
    """Return a block from the rows of a product (g, n, q) and the columns of P that belong to them (g, k, n)."""
    return Block(role, layer, permuted, written, through - through.mean(axis=2, keepdims=True), size, flips)


class Product(NamedTuple):
    """The product that is added to one matrix."""

    rows: Array  # (rows, q), with q = 0 where nothing is added
    size: float  # the root mean square of its numbers


Products = Mapping[tuple[str, int | None], Product]  # module and expert -> product that is added to its matrix


def products(lora: Lora, places: Collection[Place]) -> Products:
    """Return what is added to each place; CheckpointError for factors that are not finite."""
    added: dict[tuple[str, int | None], Product] = {}
    modules = dict.fromkeys(place.module for place in places)
    lora.prefetch(modules)
    for module in modules:
        second, first = lora.read(module)
        if not all(math.isfinite(float(np.sum(factor, dtype=np.float64))) for factor in (second, first)):
            raise CheckpointError(f"the factors of {printable(module, 200)} are not finite; the adapter is damaged")
        for expert in dict.fromkeys(place.expert for place in places if place.module == module):
            # peft lists the rank of A by expert, and the experts of B by rank.
            count, rank = lora.modules[module].experts, lora.modules[module].rank
            mine = (second, first) if expert is None else (second[:, expert::count], first[expert * rank :][:rank])
            added[module, expert] = Product(product_rows(*mine), lora.scale(module) * root_mean_square(*mine))
    return added


def blocks(base: Headers, added: Products, places: Collection[Place]) -> Iterator[Block]:
    """Yield what is tested of each of these places; CheckpointError for a base whose weights are not finite."""
    read = functools.lru_cache(maxsize=1)(base.checkpoint.read)  # experts of one stack follow one another
    partners: dict[tuple[int, int, int | None, str], tuple[Array, float]] = {}
    for place in places:
        rows, size = added[place.module, place.expert]
        if not rows.shape[1]:
            continue
        kind = ROWS[place.role]
        through = place.layer_set.slots["down"].tensor if kind == UNITS else place.slot.tensor + place.role
        key = place.layer, place.layer_set.expert, place.expert, through
        if key not in partners:
            partners[key] = _partner(base, place, read)
        partner, usual = partners[key]
        relative = size / usual if usual > 0 else np.inf
        written = _group_rows(rows, place)
        if kind == COORDINATES and base.layout.factorization.normalization == "layer_norm":
            # LayerNorm took a mean from the gradient, which flipped rows would lose again: the median tells it.
            written = written - np.median(written, axis=1, keepdims=True)
        yield block(place.role, place.layer, kind, written, partner, relative, placement.flips(place))


def _group_rows(rows: Array, place: Place) -> Array:
    """Return the rows of one role in their exchangeable groups (g, n, q)."""
    if ROWS[place.role] == COORDINATES:
        return rows[None]
    if place.role == LATENT:
        return rows[None, : place.latent]
    if place.expert is not None and len(place.slot.roles) == 1:  # one after the other in memory, apart on disk
        return rows.reshape(-1, place.layer_set.units, rows.shape[1])[[placement.IN_TURN.index(place.role)]]
    mine = unpack_heads(rows, place.layer_set, place.slot)
    return mine.reshape(1, -1, rows.shape[1]) if ROWS[place.role] == UNITS else mine


def _partner(base: Headers, place: Place, read: Read) -> tuple[Array, float]:
    """Return the matrices that a gradient passed through as the test uses them, (g, k, n), and their usual size."""
    usual, apart = 0.0, ROWS[place.role] in (placement.DIMENSIONS, placement.SCORED)

    def parts() -> Iterator[tuple[Array, float]]:
        nonlocal usual
        for part in _read_inputs(base, place, read):  # one of them is in memory at a time
            norm = float(np.linalg.norm(part))
            if not math.isfinite(norm):
                raise CheckpointError(f"weights in layer {place.layer} of {base.model_config.repo} are not finite")
            usual = max(usual, norm / math.sqrt(part.size))  # the root mean square of its numbers
            groups = part[None]
            if apart:  # columns by exchangeable groups, heads that share one as more rows
                heads = place.layer_set.heads[place.role]
                own = part.reshape(len(part), heads.count, -1, heads.size).transpose(1, 0, 2, 3)
                groups = own.reshape(heads.count, -1, heads.size)
            yield groups, 1 / norm if norm > 0 else 0.0

    return compress(parts(), place.role), usual


def _read_inputs(base: Headers, place: Place, read: Read) -> Iterator[Array]:
    """Yield the matrices that the gradient of the rows of a place passed through, (rows, n)."""
    layout, layer_set = base.layout, place.layer_set
    if place.role == LATENT:
        yield single(orient_matrix(layout, place.slot, read)) * gain(layout, layer_set, place.slot.latent[1], read)
    elif ROWS[place.role] == placement.SCORED:
        yield single(np.asarray(reader(layout, layer_set, NEEDS[place.role], read, gains=True))).T
    elif ROWS[place.role] != COORDINATES:
        out = single(writer(layout, layer_set, NEEDS[place.role], read))
        if layer_set.stacked and place.expert is not None:
            out = out[:, place.expert * layer_set.units :][:, : layer_set.units]
        yield out
    else:  # what reads the stream next, the gains of norms folded in; with it the unembedding would weaken the trace
        readers, tokens = list(placement.after(layout, place)), placement.unembedding(base)
        for following, role in readers:
            rows = single(np.asarray(reader(layout, following, role, read, gains=True)))
            yield rows if following.norm is None else rows * gain(layout, following, following.norm, read)
        if not readers and tokens is not None:
            stored = base.checkpoint.rows(tokens)
            few = None if stored is None else [stored.tensor.rows(slice(MOST_TOKENS))]
            yield single(read(tokens)[:MOST_TOKENS] if few is None else base.checkpoint.read_pieces(tokens, few))


def root_mean_square(second: Array, first: Array) -> float:
    """Return the root mean square of the numbers of a product B A, without making it."""
    wide, narrow = first.astype(np.float64), second.astype(np.float64)
    squares = max(float(np.sum((narrow.T @ narrow) * (wide @ wide.T))), 0.0)
    return math.sqrt(squares / (len(narrow) * wide.shape[1]))
