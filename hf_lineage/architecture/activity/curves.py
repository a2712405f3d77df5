"""Curves: functions of one variable that are polynomials outside a range, and activations built from them.

Beside them the standard normal distribution, of which scipy is imported only where there are enough numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

ROOT_TAU, ROOT_TWO = math.sqrt(math.tau), math.sqrt(2)
FEW = 1024
"""Up to so many numbers are computed one by one: importing scipy.special would take longer."""


def share_below(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that a standard normal number lies below each of these."""
    if z.size <= FEW:
        shares = [0.5 * math.erfc(-value / ROOT_TWO) for value in z.ravel().tolist()]
        return np.array(shares).reshape(z.shape)
    from scipy.special import ndtr

    below: NDArray[np.float64] = ndtr(z)
    return below


def density_at(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the density of the standard normal distribution at these numbers."""
    density: NDArray[np.float64] = np.exp(-0.5 * z * z) / ROOT_TAU
    return density


Vector = NDArray[np.float64]
Function = Callable[[Vector], Vector]
Polynomial = tuple[float, float, float]
"""Coefficients of 1, x and x²."""

ZERO, ONE, SAME = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)


@dataclass(frozen=True)
class Curve:
    """A function of one variable: smooth between neighbouring cuts, a polynomial outside the first and the last.

    The first cut of an activation is where one of the floating-point types models run in starts to give exactly its
    left polynomial: below it a unit is a constant whatever the exact function would say.
    """

    inner: Function
    cuts: tuple[float, ...]
    left: Polynomial = ZERO
    right: Polynomial = SAME

    def at(self, x: Vector) -> Vector:
        """Return the curve at every x."""
        x = np.asarray(x, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            middle = self.inner(np.clip(x, self.cuts[0], self.cuts[-1]))
            outside = np.where(x < self.cuts[0], polynomial(self.left, x), polynomial(self.right, x))
        return np.where((x >= self.cuts[0]) & (x <= self.cuts[-1]), middle, outside)


@dataclass(frozen=True)
class Activation:
    """The activation between reader and writer factor: its value and its slope, each a curve."""

    name: str
    curve: Curve
    tangent: Curve
    turns: tuple[float, ...] = ()
    """Where the slope changes its sign."""
    limit: float = np.inf
    """What the values that are multiplied with a gate are clamped to, on both sides."""
    offset: float = 0.0
    """What is added to them after that."""

    def value(self, x: Vector) -> Vector:
        """Return the activation at every x."""
        return self.curve.at(x)

    def slope(self, x: Vector) -> Vector:
        """Return its derivative at every x, on a kink that of one of the sides."""
        return self.tangent.at(x)

    @property
    def steepness(self) -> Curve:
        """The absolute value of the slope."""
        tangent = self.tangent
        cuts = tuple(sorted({*tangent.cuts, *self.turns}))
        left, right = (_positive(tail) for tail in (tangent.left, tangent.right))
        return Curve(lambda x: np.abs(tangent.inner(x)), cuts, left, right)


def polynomial(coefficients: Polynomial, x: Vector) -> Vector:
    """Return c0 + c1 x + c2 x², leaving out what is multiplied with zero, so that 0 x inf is 0."""
    total = np.full_like(x, coefficients[0])
    for power, coefficient in enumerate(coefficients[1:], 1):
        if coefficient:
            total = total + coefficient * x**power
    return total


def _positive(tail: Polynomial) -> Polynomial:
    """The absolute value of a tail of a slope: a constant, or for a square the line that is positive there."""
    return (abs(tail[0]), tail[1], tail[2])


def derivative(coefficients: Polynomial) -> Polynomial:
    """Return the coefficients of the derivative."""
    return coefficients[1], 2 * coefficients[2], 0.0


def make(
    name: str,
    value: Function,
    slope: Function,
    cuts: tuple[float, ...],
    tails: tuple[Polynomial, Polynomial] = (ZERO, SAME),
    turns: tuple[float, ...] = (),
) -> Activation:
    """Return an activation of its value and slope between the cuts and its polynomials outside them."""
    left, right = tails
    tangent = Curve(slope, cuts, derivative(left), derivative(right))
    return Activation(name, Curve(value, cuts, left, right), tangent, turns)


def clamped(whole: Activation, limit: float, offset: float) -> Activation:
    """Return an activation with no input above a limit; what it is multiplied with is clamped on both sides."""
    top = (float(whole.value(np.array(limit))), 0.0, 0.0)
    within = (*(cut for cut in whole.curve.cuts[:-1] if cut < limit), limit)
    curve = replace(whole.curve, inner=whole.curve.at, cuts=within, right=top)
    tangent = replace(whole.tangent, inner=whole.tangent.at, cuts=within, right=ZERO)
    return replace(whole, name=f"clamped_{whole.name}", curve=curve, tangent=tangent, limit=limit, offset=offset)
