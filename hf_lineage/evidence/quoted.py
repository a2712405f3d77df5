"""Quoted: numbers that people quote of two models, and what the same numbers are of models that are independent.

None of them decides a verdict. Gains of norms start at one and stay near it, so that their cosine is near one for any
two models; sizes of matrices follow from the architecture and the recipe of training. Beside independent models such a
number shows what it is worth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hf_lineage.signature import Vector


@dataclass(frozen=True)
class Quotable:
    """One kind of number, and its range over pairs of independent models."""

    words: str
    low: float | None = None
    high: float | None = None
    """Over independent models that are named, else over 33 pairs of `python -m benchmarks.disputes`; None where
    it was not measured."""

    @property
    def independent(self) -> str:
        """The range in figures."""
        return "not measured" if self.low is None else f"{self.low:.3f} to {self.high:.3f}"

    def worth(self, value: float) -> str:
        """Return what a number is worth: whether independent models reach it.

        >>> KINDS["gains"].worth(0.99)
        'decides nothing'
        """
        return NOTHING if self.high is None or value <= self.high else SEPARATES


KINDS: Mapping[str, Quotable] = {
    "configuration": Quotable("settings of config.json that are equal", 1.0, 1.0),
    "tokens": Quotable("tokens that both have, of all tokens of both"),
    "gains": Quotable("gains of norms, cosine", 0.984, 0.997),
    "gains_centred": Quotable("gains of norms, each less its mean, cosine", -0.039, 0.057),
    "deviations": Quotable("standard deviations of attention matrices, Pearson", 0.934, 0.989),
    "biases": Quotable("biases of query, key and value, cosine"),
    "embedding": Quotable("rows of the embedding, cosine", -0.004, 0.01),
}
"""By identifier, in the order in which they are shown."""
NOTHING, SEPARATES = "decides nothing", "separates here"


def among(independent: Sequence[Mapping[str, float]]) -> Mapping[str, Quotable]:
    """Return the kinds with the ranges over these independent pairs; their own where these have no such number."""
    values = {name: [one[name] for one in independent if name in one] for name in KINDS}
    return {
        name: replace(kind, low=min(values[name]), high=max(values[name])) if values[name] else kind
        for name, kind in KINDS.items()
    }


def cosine(first: Sequence[Vector], second: Sequence[Vector], centred: bool = False) -> float | None:
    """Return the cosine of two lists of arrays of equal shapes, all of one end to end; None where there is none.

    If `centred`, the mean of each side is taken off, which makes it Pearson's correlation.
    """
    pairs = [(a, b) for a, b in zip(first, second, strict=False) if a.shape == b.shape]
    if not pairs:
        return None
    one, other = (np.concatenate([pair[side].ravel() for pair in pairs]).astype(np.float64) for side in (0, 1))
    if centred:
        one, other = one - one.mean(), other - other.mean()
    size = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    value = float(one @ other) / size if size > 0 else np.nan
    return value if np.isfinite(value) else None
