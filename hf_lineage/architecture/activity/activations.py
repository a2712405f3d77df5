"""The activations that `config.json` may name, by the formulas of torch and transformers."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hf_lineage.architecture.activity.curves import (
    ONE,
    SAME,
    ZERO,
    Activation,
    Curve,
    Polynomial,
    Vector,
    density_at,
    derivative,
    make,
    polynomial,
    share_below,
)


def _gelu(x: Vector) -> Vector:
    return x * share_below(x)


def _gelu_slope(x: Vector) -> Vector:
    below, density = share_below(x), density_at(x)
    return below + x * density


ROOT, CUBE = math.sqrt(2 / math.pi), 0.044715


def _tanh_gelu(x: Vector) -> Vector:
    return x * _sigmoid(2 * ROOT * (x + CUBE * x * x * x))


def _tanh_gelu_slope(x: Vector) -> Vector:
    share = _sigmoid(2 * ROOT * (x + CUBE * x * x * x))
    return share + x * share * (1 - share) * 2 * ROOT * (1 + 3 * CUBE * x * x)


def _sigmoid(x: Vector) -> Vector:
    return 1 / (1 + np.exp(-x))


def _sigmoid_slope(x: Vector) -> Vector:
    return _sigmoid(x) * _sigmoid(-x)


def _swish(factor: float, x: Vector) -> Vector:
    return x * _sigmoid(factor * x)


def _swish_slope(factor: float, x: Vector) -> Vector:
    open_ = _sigmoid(factor * x)
    return open_ * (1 + factor * x * (1 - open_))


def _mish(x: Vector) -> Vector:
    return x * np.tanh(np.log1p(np.exp(x)))


def _mish_slope(x: Vector) -> Vector:
    tangent = np.tanh(np.log1p(np.exp(x)))
    slope: Vector = tangent + x * (1 - tangent**2) * _sigmoid(x)
    return slope


def _tanh_slope(x: Vector) -> Vector:
    slope: Vector = 1 - np.tanh(x) ** 2
    return slope


MIDDLE, WIDTH = 0.707107, 0.282095


def _laplace(x: Vector) -> Vector:
    return share_below((x - MIDDLE) / WIDTH)


def _laplace_slope(x: Vector) -> Vector:
    return density_at((x - MIDDLE) / WIDTH) / WIDTH


def _hardswish(x: Vector) -> Vector:
    return x * (x + 3) / 6


def _hardswish_slope(x: Vector) -> Vector:
    return (2 * x + 3) / 6


def _same(x: Vector) -> Vector:
    return x


def _either(left: Polynomial, right: Polynomial, x: Vector) -> Vector:
    """Of two polynomials the left one below 0."""
    return np.where(x < 0, polynomial(left, x), polynomial(right, x))


def _kinked(name: str, left: Polynomial, right: Polynomial = SAME) -> Activation:
    slope = functools.partial(_either, derivative(left), derivative(right))
    return make(name, functools.partial(_either, left, right), slope, (0.0,), (left, right))


def xielu(positive: float, negative: float, beta: float = 0.5) -> Activation:
    """Return xIELU (arXiv 2411.13010) for its two effective factors, computed from the learned ones."""
    left, right = (-negative, beta - negative, 0.0), (0.0, beta, positive)

    def value(x: Vector) -> Vector:
        return negative * (np.expm1(x) - x) + beta * x

    def slope(x: Vector) -> Vector:
        return negative * np.expm1(x) + beta

    turns = (float(np.log1p(-beta / negative)),) if negative > beta > 0 else ()
    return make("xielu", value, slope, (-20.0, 0.0), (left, right), turns)


def with_learned(usual: Activation, numbers: Sequence[float]) -> Activation:
    """Return an activation with what a layer has learned of it: for xIELU the logits of two factors, and beta."""
    if usual.name != "xielu" or not numbers:
        return usual
    positive, negative, beta = numbers
    return xielu(_softplus(positive), beta + _softplus(negative), beta)


def _softplus(x: float) -> float:
    return float(np.logaddexp(0.0, x))


EXACT, FUSED, WRITTEN, ROUNDED = -5.4, -5.02, -3.09, -3.04
"""Below these a GELU is zero: by torch's erf and tanh in float32, and by each written out in Python in bfloat16."""
LAPLACE, HARD = -0.165, -2.98
"""Below these the Laplace activation and the hard swish are zero in bfloat16."""
GELU_TURN, TANH_TURN, SILU_TURN, MISH_TURN = -0.7517916243, -0.7524614210, -1.2784645428, -1.1924912100
_QUICK = 1.702


def _gelu_like(name: str, lowest: float) -> Activation:
    return make(name, _gelu, _gelu_slope, (lowest, 5.6), turns=(GELU_TURN,))


def _tanh_like(name: str, lowest: float) -> Activation:
    return make(name, _tanh_gelu, _tanh_gelu_slope, (lowest, 5.2), turns=(TANH_TURN,))


def swish(name: str, factor: float) -> Activation:
    """Return x sigmoid(factor x)."""
    value, slope = functools.partial(_swish, factor), functools.partial(_swish_slope, factor)
    return make(name, value, slope, (-20 / factor, 20 / factor), turns=(SILU_TURN / factor,))


def _everything() -> tuple[Activation, ...]:
    gelu = _gelu_like("gelu", EXACT)
    top = (10.0, 0.0, 0.0)
    six = (6.0, 0.0, 0.0)
    return (
        gelu,
        _gelu_like("gelu_python", WRITTEN),
        replace(
            gelu,
            name="gelu_10",
            curve=Curve(gelu.curve.at, (EXACT, 5.6, 10.0), ZERO, top),
            tangent=Curve(gelu.tangent.at, (EXACT, 5.6, 10.0), ZERO, ZERO),
        ),
        *(_tanh_like(name, ROUNDED) for name in ("gelu_new", "gelu_fast", "gelu_accurate", "gelu_python_tanh")),
        _tanh_like("gelu_pytorch_tanh", FUSED),
        swish("quick_gelu", _QUICK),
        *(swish(name, 1.0) for name in ("silu", "swish")),
        make("mish", _mish, _mish_slope, (-20.0, 10.0), turns=(MISH_TURN,)),
        make("sigmoid", _sigmoid, _sigmoid_slope, (-20.0, 0.0, 20.0), (ZERO, ONE)),
        make("tanh", np.tanh, _tanh_slope, (-9.0, 0.0, 9.0), ((-1.0, 0.0, 0.0), ONE)),
        make("laplace", _laplace, _laplace_slope, (LAPLACE, 2.2), (ZERO, ONE)),
        make("hardswish", _hardswish, _hardswish_slope, (HARD, 3.0), turns=(-1.5,)),
        make("relu6", _same, np.ones_like, (0.0, 6.0), (ZERO, six)),
        _kinked("relu", ZERO),
        _kinked("relu2", ZERO, (0.0, 0.0, 1.0)),
        _kinked("leaky_relu", (0.0, 0.01, 0.0)),
        _kinked("linear", SAME),
        xielu(0.8, 0.8),
    )


NAMED = {activation.name: activation for activation in _everything()}
GATED = {f"gated-{name}": NAMED[name] for name in ("relu", "silu", "gelu_new")} | {"gated-gelu": NAMED["gelu_new"]}
"""T5's names, where a gated GELU is the one by tanh."""
ACTIVATIONS = NAMED | GATED
"""By the name that `config.json` gives them."""
