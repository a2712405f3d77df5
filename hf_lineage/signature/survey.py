"""Survey: what every hidden unit or head of a term adds to M: its size, its direction and its activity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from hf_lineage.signature.parallel import Share
from hf_lineage.signature.recipe import HEAD_COORDINATES, UNIT_SIGNS, Vector
from hf_lineage.signature.term import UNITS, Scratch, Term, Tile, row_norms
from hf_lineage.signature.units import ProbeView, Units
from hf_lineage.signature.values import UnitCodes


def survey(term: Term, probes: ProbeView, share: Share) -> Units:
    """Return what every hidden unit of a term adds to M: the one pass over its reader, the first over its writer."""
    units = Units.empty(term, probes)

    def note(starts: Iterator[int]) -> None:
        for tile in map(probes.tile, term.tiles(starts)):
            chosen, parts = tile.units, slice(tile.units.start // term.part, tile.units.stop // term.part)
            units.seen[chosen] = probes.seen(tile.inn)
            units.corner[chosen] = tile.inn.index_select(1, probes.coordinates)
            units.mean[chosen] = tile.mean
            units.trace[chosen] = unit_dots(tile.out, tile.inn)
            units.total[chosen] = tile.out.sum(dim=1) * tile.inn.sum(dim=1)
            units.norm[parts] = _norms(term, tile)
            if tile.inside is not None:
                units.spread[chosen], units.centre[chosen] = tile.inside
            _direct(units, parts, tile, probes)

    share(note, term.starts)
    _outer(term, units, probes)
    if term.inside is not None:
        units.scale(_activity(term, units))
    if term.weigh is not None:
        units.scale(part_weights(term.weigh, share))
    return units


def _norms(term: Term, tile: Tile) -> torch.Tensor:
    """The norms of the parts of a tile, in float64."""
    if term.part > 1:
        return part_norms(tile.out, tile.inn, term.part)
    as_prepared = term.inside is not None and term.inside.rows is None
    readers = tile.inside[0] if as_prepared and tile.inside else row_norms(tile.inn)
    return readers * row_norms(tile.out)


def _direct(units: Units, parts: slice, tile: Tile, probes: ProbeView) -> None:
    """Record the signs of a tile's parts: of random sums of their readers or, for heads, of products' entries."""
    coordinates = probes.coordinates
    if units.outer.shape[1]:
        sketched = min(probes.sketched, UNIT_SIGNS // 2)
        units.inner[parts, :sketched] = units.seen[parts, :sketched] > 0
        units.inner[parts, sketched:] = units.corner[parts] @ probes.signs[:, sketched:] > 0
        return
    few = min(len(coordinates), HEAD_COORDINATES)
    count = parts.stop - parts.start
    out, inn = (rows[:, some].reshape(-1, len(tile.inn) // count, few) for rows, some in (
        (tile.out, coordinates[:few]), (tile.inn, coordinates[-few:])
    ))  # fmt: skip
    units.inner[parts] = (out.mT @ inn).flatten(1) > 0


def _outer(term: Term, units: Units, probes: ProbeView) -> None:
    """Record the signs of random sums of the writers of hidden units, from a few rows of the writer."""
    coordinates, hidden = probes.coordinates, len(units.outer)
    scratch = Scratch(len(coordinates) * min(hidden, UNITS), term.writer)
    for start in range(0, hidden if units.outer.shape[1] else 0, UNITS):
        some = slice(start, start + UNITS)
        written = probes.written(term, coordinates, some, units.mean[some], scratch)
        units.outer[some] = written.mT @ probes.signs > 0


def _activity(term: Term, units: Units) -> torch.Tensor:
    """The expected activity of every hidden unit (h,), in float64."""
    inside = term.inside
    assert inside is not None  # noqa: S101 - the caller has checked it
    active = _expected(inside.expected, units.spread, units.centre, inside.bias)
    if (beside := inside.beside) is not None:
        active *= _expected(beside.factor, *beside.rows.measured(), beside.bias)
    return active if inside.odds is None else active * inside.odds.to(active.device)


def _expected(
    function: Callable[[Vector, Vector], Vector], spread: torch.Tensor, centre: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """An expectation over the input of units with these spreads and centres (h,), the bias added to the centres."""
    centre = centre if bias is None else centre + bias.double()
    values = function(spread.cpu().numpy(), centre.cpu().numpy())
    return torch.from_numpy(np.ascontiguousarray(values)).to(spread.device)


def part_weights(term: Term, share: Share) -> torch.Tensor:
    """Return ‖C_g‖_F of every part of a term (h / part,), in float64."""
    norms = torch.empty(len(term.reader) // term.part, dtype=torch.float64, device=term.reader.device)

    def note(starts: Iterator[int]) -> None:
        for tile in term.tiles(starts):
            norms[tile.units.start // term.part : tile.units.stop // term.part] = _norms(term, tile)

    share(note, term.starts)
    return norms


def unit_dots(out: torch.Tensor, inn: torch.Tensor) -> torch.Tensor:
    """Return the inner product (t,) of every row of outᵀ with the same row of inn (t, width).

    They are the diagonals of small square products, since only those read a matrix stored the other way at full speed.
    """
    blocks = (-1, math.gcd(len(inn), 16), inn.shape[1])
    squares = inn.reshape(blocks) @ out.reshape(blocks).mT
    return squares.diagonal(dim1=1, dim2=2).flatten()


def part_norms(out: torch.Tensor, inn: torch.Tensor, part: int) -> torch.Tensor:
    """Return ‖C_g‖_F (t / part,) of every part of outᵀ and inn (t, width), by its two small Gram matrices.

    Each side is divided by its largest number first, so that no square leaves the range of float32.
    """
    writers, readers = (rows.reshape(-1, part, rows.shape[1]) for rows in (out, inn))
    sizes = [rows.abs().amax(dim=(1, 2)) for rows in (writers, readers)]
    pairs = zip((writers, readers), sizes, strict=True)
    units = [rows / torch.where(size > 0, size, 1)[:, None, None] for rows, size in pairs]
    left, right = (rows @ rows.mT for rows in units)
    squares = (left * right).sum(dim=(1, 2)).clamp(min=0)
    return squares.double().sqrt() * sizes[0].double() * sizes[1].double()


def cap(branch: Sequence[Units], limit: float, median: Literal["units", "norm"]) -> None:
    """Scale every part above `limit` times the median norm down to that; dead parts do not count for the median.

    The median of the norm is the size up to which parts make up half of all they add together: parts that add little
    cannot move it, however many there are.
    """
    norms = torch.cat([units.norm for units in branch])
    alive = norms[norms > 0].sort().values
    if median == "norm" and len(alive):
        half = alive.cumsum(0)
        middle = alive[int(torch.searchsorted(half, half[-1] / 2).clamp(max=len(alive) - 1))]
    else:
        middle = alive.median() if len(alive) else norms.new_tensor(0.0)
    most = limit * middle
    for units in branch:
        units.scale(torch.where(units.norm > most, most / units.norm, 1.0))


def unit_codes(branch: Sequence[Units]) -> UnitCodes:
    """Return what the signature holds of the units of a branch; weights are shares of what all of them write."""
    weights = torch.cat([units.norm for units in branch]).cpu().numpy()
    total = weights.sum()
    shares = weights / total if 0 < total < math.inf else np.zeros_like(weights)
    inner, outer = (_packed([getattr(units, side) for units in branch]) for side in ("inner", "outer"))
    return UnitCodes(shares.astype(np.float32), inner, outer)


def _packed(signs: Sequence[torch.Tensor]) -> NDArray[np.uint8]:
    """Signs (u, n) as bytes; an incomplete last byte is left out, since its padding would agree in any two units."""
    rows = torch.cat(list(signs)).cpu().numpy()
    return np.packbits(rows[:, : len(rows.T) // 8 * 8], axis=1)
