"""Change: what was done to one matrix of a base, and by which weights several parents make up a matrix.

Parents of one family differ little from each other, so that inner products are taken of their differences from the
first: Gram matrices here are of P_0, P_1 - P_0, ..., P_(n-1) - P_0 and X - P_0, in this order.
What rounding alone can cause is never called a change: its size is known from the formats in which both are stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from hf_lineage.checkpoint.rounding import DIGITS, STORED, Grid, Matrix, find_grid, round_digits, shortest, spacing
from hf_lineage.signature.recipe import Vector

SINGULAR = 1e-9  # differences between parents, each divided by its size, depend on each other below this eigenvalue
ERROR = 0.01  # the probability that a weight lies outside its interval
NO_SIZE = 1e-6  # parents that are less far apart than this, beside the size of the first, are one and the same
FEW = 3  # bits from which on what rounding adds is without structure
PRUNED = 0.02  # the share of weights that must have become zero: fewer do so by rounding, or by chance
MARGIN, TWICE = 1.1, 2.0  # above MARGIN times its bound a singular value is no rounding; above TWICE that it counts
LEFT_OVER = 1.5  # the most that may be left beside a change of low rank, as a multiple of what rounding leaves
LARGEST_SHARE = 0.75  # a change of more than this share of the smaller side is not called one of low rank
COMPUTED = (DIGITS["F32"], DIGITS["F16"], DIGITS["BF16"])  # digits in which a product of factors may be computed


def distance(gram: Vector) -> float:
    """Return the mean squared distance of n parents from each other, given a Gram matrix (n + 1, n + 1); 0 for one."""
    count = len(gram) - 1
    apart = [square_distance(gram, one, other) for one in range(count) for other in range(one)]
    return float(np.mean(apart)) if apart else 0.0


def square_distance(gram: Vector, one: int, other: int) -> float:
    """Return the squared distance of two of the parents, or of one from the model, whose number is n."""
    between = np.zeros(len(gram))
    between[one] += one > 0
    between[other] -= other > 0
    return max(0.0, float(between @ gram @ between))


def solve(gram: Vector) -> Vector:
    """Return the weights (n,) of n parents by least squares; they add up to 1 unless the model is scaled as a whole."""
    count = len(gram) - 1
    sizes = np.sqrt(np.maximum(gram.diagonal()[:-1], 0.0))
    known = np.flatnonzero(sizes > NO_SIZE * sizes[0])
    scale = sizes[known]
    inner = gram[np.ix_(known, known)] / np.multiply.outer(scale, scale)
    weights = np.zeros(count)
    weights[known] = np.linalg.lstsq(inner, gram[known, -1] / scale, rcond=SINGULAR)[0] / scale
    return np.append(1 + weights[0] - weights[1:].sum(), weights[1:])


def residual(gram: Vector, weights: Vector) -> float:
    """Return the squared size of what is left of the model without a combination of the parents (n,)."""
    extended = np.append(-weights, 1.0)
    extended[0] = 1 - weights.sum()
    return max(0.0, float(extended @ gram @ extended))


def dependents(gram: Vector) -> list[int]:
    """Return the parents that are another one, or lie on the line, plane and so on through others."""
    count = len(gram) - 1
    apart = np.zeros((count, count))
    apart[1:, 1:] = gram[1:-1, 1:-1]
    if count == 1 or apart.diagonal().max() <= NO_SIZE**2 * gram[0, 0]:
        return [] if count == 1 else list(range(count))
    dependent = []
    for parent in range(count):
        identity = np.eye(count)[[parent, *(other for other in range(count) if other != parent)]]
        # Differences of the parent, and of all others but one, from that one.
        between = np.vstack([identity[0], identity[2:]]) - identity[1]
        inner = between @ apart @ between.T
        remains = inner[0, 0] - inner[0, 1:] @ np.linalg.lstsq(inner[1:, 1:], inner[1:, 0], rcond=SINGULAR)[0]
        if remains <= SINGULAR * apart.trace():
            dependent.append(parent)
    return dependent


def jackknife(estimates: Sequence[Vector]) -> Vector:
    """Return half the widths of intervals (n,) from m estimates that each leave one part out; of one, infinity."""
    from scipy.special import stdtrit

    left_out, count = np.array(estimates), len(estimates)
    spread = np.sqrt((count - 1) / count * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
    return np.asarray(spread * stdtrit(count - 1, 1 - ERROR / 2) if count > 1 else np.full(left_out.shape[1], np.inf))


@dataclass(frozen=True)
class Change:
    """The difference between one matrix of a candidate and that of the base."""

    size: float  # ‖V - W‖ / ‖W‖, the candidate's V and the base's W, without new zeros and what a grid adds
    equal: bool = False  # whether V is W, rounded to the format in which V is stored
    bits: int = 0  # the bits of the quantization whose grid V lies on and W does not; 0 if there is none
    grid: str = ""  # the floating-point format whose grid this is; empty for whole numbers, and without a grid
    zeros: float = 0.0  # the share of weights that are zero in V alone, and not by a grid; 0 if less than PRUNED
    rank: int | None = None  # rank of V - W beside rounding; 0 if that explains all, None if not low or not measured
    certain: bool = True  # whether the rank is exact; if not, rounding may cover further directions of V - W
    hidden: bool = False  # whether V differs by no more than rounding, which alone would have left it equal


class EqualShare(NamedTuple):
    """Some numbers of one tensor beside the base's."""

    kind: str  # kind of the tensor, in words
    numbers: int  # numbers of the whole tensor
    equal: float  # the share of those that were compared which are the base's, as the candidate stores them

    @classmethod
    def compare(cls, kind: str, numbers: int, base: Matrix, candidate: Matrix, digits: int) -> "EqualShare":
        """Return how some numbers compare, of a candidate that stores so many binary digits; zeros are none."""
        forms = [round_digits(base, short) for short in {*STORED, digits} if short <= digits]
        whole = any(np.array_equal(form, candidate) for form in forms)
        shares = (float(np.mean((form == candidate) & (candidate != 0))) for form in forms)
        return cls(kind, numbers, 1.0 if whole else max(shares))


def measure_change(base: Matrix, candidate: Matrix, digits: tuple[int, int]) -> Change | None:
    """Return what was done to a base's matrix, of such binary digits each; None for no finite one, or zeros."""
    with np.errstate(all="ignore"):
        difference = candidate - base
        size, whole = float(np.linalg.norm(difference)), float(np.linalg.norm(base))
    if not np.isfinite(size) or not np.isfinite(whole) or whole == 0:
        return None
    forms = (round_digits(base, short) for short in {*COMPUTED, digits[1]} if short <= digits[1])
    if any(np.array_equal(form, candidate) for form in forms):
        return Change(size / whole, equal=True, rank=0)
    digits = shortest(base, digits[0]), shortest(candidate, digits[1])
    stored = round_digits(base, digits[1])
    grid = find_grid(candidate, digits[1])
    if grid and find_grid(stored, digits[1]):
        grid = None
    bits, name = (grid.levels.bits, grid.levels.name) if grid else (0, "")
    near = grid.step * np.float32(0.51) if grid and bits > 1 else np.float32(0)
    gone, before = np.abs(candidate) <= near, np.abs(stored) <= near
    # Training moves as many numbers to where a grid rounds them to zero as away from there, so these are subtracted.
    share = float(np.mean(gone & ~before)) - (float(np.mean(~gone & before)) if np.ndim(near) else 0.0)
    zeros, variance = share if share >= PRUNED else 0.0, _variance(base, candidate, digits, grid)
    mask = np.abs(candidate) > near if zeros else np.ones(base.shape, bool)
    square, rounding = float((difference[mask].astype(np.float64) ** 2).sum()), float(variance[mask].sum())
    relative = float(np.sqrt(max(square - rounding, 0.0) if grid else square)) / whole
    if not zeros:
        change = replace(_of_rank(difference, variance, relative, bits), grid=name)
        # Few levels are further from most numbers than half a step, so the nearest one is not taken for a change.
        nearest = grid is not None and (change.rank is None or bits < FEW) and grid.rounds(base, candidate)
        return Change(0.0, bits=bits, grid=name, rank=0) if nearest else change
    explained = bits > 0 and square <= LEFT_OVER * rounding
    equal = np.array_equal(stored[mask], candidate[mask])
    return Change(relative, equal, bits, name, zeros, rank=0 if explained else None)


def is_low_rank(one: Matrix, other: Matrix, digits: int) -> bool | None:
    """Return whether two finite matrices of so many digits differ by a low rank; None if rounding hides that."""
    rank = _of_rank(other - one, _variance(one, other, (digits, digits), None), 0.0, 0).rank
    return None if rank == 0 else rank is not None


def _variance(base: Matrix, candidate: Matrix, digits: tuple[int, int], grid: Grid | None) -> Matrix:
    """Return the variance of what rounding adds to each number of the difference: a twelfth of the squared spacing."""
    units = [spacing(candidate, digits[1])]
    # Where both have one format W is a number of it, and only what came of W was rounded.
    units += [spacing(base, digits[0])] if digits[0] < digits[1] else []
    units += [grid.step] if grid else []
    return np.asarray(sum((unit**2 for unit in units), np.zeros_like(base)) / np.float32(12))


def _of_rank(difference: Matrix, variance: Matrix, relative: float, bits: int) -> Change:
    """Return the change beside rounding: none, of low rank, or of more."""
    # A product of rank r is rounded once more when it is scaled. In float32 each of its r sums is rounded, in shorter
    # formats only the whole, for the sums are made in float32.
    shorter = (difference if difference.shape[0] <= difference.shape[1] else difference.T).astype(np.float64)
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(shorter @ shorter.T)[::-1], 0))  # singular values, descending
    for digits in COMPUTED:
        rank, edge, whole, once = 0, 0.0, 0.0, spacing(difference, digits) ** 2 / np.float32(12)
        sums = [[one.sum(axis=axis, dtype=np.float64) for one in (variance, once)] for axis in (0, 1)]
        for _ in range(2 if digits == DIGITS["F32"] else 1):
            along = [one + other * (2 + rank) for one, other in sums]
            edge, whole = MARGIN * float(sum(np.sqrt(one.max()) for one in along)), float(along[0].sum())
            rank = int(np.sum(values > edge))
        rest, expected = float((values[rank:] ** 2).sum()), whole * (1 - rank / len(values))
        if not rest <= LEFT_OVER * expected:
            continue
        if rank == 0:
            return Change(relative, bits=bits, rank=0, hidden=not bits)
        sure = int(np.sum(values > TWICE * edge))
        if 0 < sure <= rank <= LARGEST_SHARE * len(values):
            return Change(relative, bits=bits, rank=sure, certain=sure == rank)
    return Change(relative, bits=bits)
