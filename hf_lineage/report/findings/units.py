"""What two models show unit by unit: in words and as plain values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from hf_lineage.evidence import named
from hf_lineage.evidence.units import CALIBRATION, LARGEST, PAIRS, PLACES, PROCRUSTES, RESIDUAL, TOKEN, Framed, through

PATH = "units"
"""What stands for the name of a path in tables."""
SEEN = {
    TOKEN: "through {0.tokens:,} tokens",
    RESIDUAL: "in the residual stream",
    PROCRUSTES: "in coordinates that fit best",
}
"""By frame, through what units are seen, in few words."""
STATISTICS = {PLACES: "units in the same places are alike", "ranks": "the ranks of matched units agree"}
"""By statistic what it tests."""


def inherited(framed: Framed) -> str:
    """Return the share of what the model's units write that is inherited, as it is printed."""
    return f"{framed.inherited.share:.0%}"


def p_value(framed: Framed) -> str:
    """Return the p-value of the order of units, as it is printed; a dash where nothing is tested."""
    return "-" if framed.p_value is None else f"{framed.p_value:.3g}"


def cells(framed: Framed) -> tuple[str, ...]:
    """Return path, score, share and p-value as they stand in a table."""
    return PATH, "-", inherited(framed), p_value(framed)


def summary(framed: Framed | None) -> Iterator[str]:
    """Yield in one sentence what was seen unit by unit; nothing if it was not measured."""
    if framed is not None:
        seen = SEEN[framed.frame.name].format(framed.frame)
        order = "" if framed.p_value is None else f", order p = {p_value(framed)}"
        yield f"units seen {seen}: {inherited(framed)} inherited{order}"


def sentences(framed: Framed) -> Iterator[str]:
    """Yield how the two models were seen unit by unit, and what their order shows."""
    low, high = (f"{end:.0%}" for end in framed.inherited.interval)
    share = inherited(framed) + ("" if low == high else f" ({low.rstrip('%')}-{high})")
    read = len(framed.layers[1])
    some = f", in {read} of {framed.depth} layers ({named(framed.layers[1])})" if read < framed.depth else ""
    yield f"unit by unit, seen {through(framed)}: {share} inherited{some}"
    if framed.objection:
        yield f"the order of units is not tested: {framed.objection}"
    elif framed.order is None:
        yield "the order of units is not tested: no two units match"
    else:
        by = "; ".join(f"{STATISTICS[name]}, z {z:.1f}" for name, z in framed.order.z.items())
        tests = f", corrected for {framed.tests} tests of the claim (Bonferroni)" if framed.tests > 1 else ""
        drawn = f"{framed.order.drawn:,} permutations within layers"
        yield f"order of units: {by}; p = {p_value(framed)} from {drawn}{tests}"


def values(framed: Framed) -> dict[str, Any]:
    """Return what was measured as plain values."""
    low, high = framed.inherited.interval
    order = framed.order
    shares = zip(framed.layers[1], framed.partners, framed.inherited.by_layer, strict=True)
    return {
        "frame": framed.frame.name,
        "tokens": framed.frame.tokens or None,
        "tokens_by": framed.frame.by or None,
        "p_value": None if order is None else order.p_value,
        "p_value_adjusted": framed.p_value,
        "tests": framed.tests,
        "objection": framed.objection,
        "z": {} if order is None else {name: z for name, z in order.z.items() if math.isfinite(z)},
        "permutations": 0 if order is None else order.drawn,
        "inherited": {"share": framed.inherited.share, "low": low, "high": high, "at_least": framed.least},
        "layers_read": len(framed.layers[1]),
        "layers": [
            {"layer": layer, "paired_with": partner, "inherited": float(share)} for layer, partner, share in shares
        ],
        "calibration": {"source": CALIBRATION, "pairs": PAIRS, "largest": LARGEST},
    }
