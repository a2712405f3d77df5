"""Independent models: what all pairs of them show unit by unit, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from benchmarks.paper.parts.frames import Seen, interval
from benchmarks.paper.parts.results import Row
from hf_lineage.evidence.unit_comparison import PROCRUSTES

LEVELS = (0.01, 0.05)
LARGEST = "independent pairs: largest share inherited"
FITTED = "independent pairs that show most in fitted coordinates"


def shown(found: Mapping[tuple[int, int], Seen], models: int) -> Iterator[Row]:
    """Yield the largest shares of pairs of so many models, and how often the test of the order rejects."""
    shares = sorted((one.share for one in found.values()), reverse=True)
    yield Row(LARGEST, None, shares[0], f"the next {shares[1]:.4f} and {shares[2]:.4f}")
    fitted = [one.share for one in found.values() if one.frame == PROCRUSTES]
    yield Row(FITTED, None, len(fitted), f"their largest share {max(fitted, default=0.0):.4f}")
    for alpha in LEVELS:
        rejected = {pair: one.p_value <= alpha for pair, one in found.items()}
        low, high = interval(rejected, models)
        name = f"independent pairs rejected at {alpha}"
        drawn = f"95 % interval {low:.4f} to {high:.4f}, whole models drawn again"
        yield Row(
            name, None, float(np.mean(list(rejected.values()))), f"{sum(rejected.values())} of {len(found)}; {drawn}"
        )
        yield Row(f"{name}: lower end", None, low)
