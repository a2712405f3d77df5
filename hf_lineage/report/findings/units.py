"""Comparison of two models unit by unit, where their hidden units were compared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.evidence.judging import CALIBRATION, LARGEST, PAIRS, named, through
from hf_lineage.evidence.units import PLACES, PROCRUSTES, RESIDUAL, TOKEN, Framed
from hf_lineage.report.findings.finding import Finding
from hf_lineage.report.words import wording

SEEN = {
    TOKEN: "through {0.tokens:,} tokens",
    RESIDUAL: "in the residual stream",
    PROCRUSTES: "in coordinates that fit best",
}
"""Frame through which units are seen -> few words for it."""
STATISTICS = {PLACES: "units in the same places are alike", "ranks": "the ranks of matched units agree"}
"""Statistic -> what it tests."""


def describe(_report: Report, row: Row) -> Finding | None:
    """Return what was seen unit by unit; None if it was not measured."""
    framed = row.verdict.framed
    if framed is None:
        return None
    seen = SEEN[framed.frame.name].format(framed.frame)
    order = "" if framed.p_value is None else f", order p = {framed.p_value:.3g}"
    summary = f"units seen {seen}: {framed.inherited.share:.0%} inherited{order}"
    return Finding("Hidden units", wording.about(row), (summary,), tuple(_details(framed)), values=_values(framed))


def _details(framed: Framed) -> Iterator[str]:
    """Yield how the two models were seen unit by unit, and what their order shows."""
    low, high = (f"{end:.0%}" for end in framed.inherited.interval)
    share = f"{framed.inherited.share:.0%}" + ("" if low == high else f" ({low.rstrip('%')}-{high})")
    read = len(framed.layers[1])
    some = f", in {read} of {framed.depth} layers ({named(framed.layers[1])})" if read < framed.depth else ""
    yield f"unit by unit, seen {through(framed)}: {share} inherited{some}"
    if framed.order is None:
        yield "the order of units is not tested: no two units match"
    else:
        by = "; ".join(f"{STATISTICS[name]}, z {z:.1f}" for name, z in framed.order.z.items())
        tests = f", corrected for {framed.tests} tests of the claim (Bonferroni)" if framed.tests > 1 else ""
        drawn = f"{framed.order.drawn:,} permutations among units of a layer that read and write as much"
        yield f"order of units: {by}; p = {framed.p_value:.3g} from {drawn}{tests}"


def _values(framed: Framed) -> dict[str, Any]:
    """Return the measurements as plain values."""
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
        "z": {} if order is None else {name: z for name, z in order.z.items() if math.isfinite(z)},
        "permutations": 0 if order is None else order.drawn,
        "inherited": {"share": framed.inherited.share, "low": low, "high": high, "at_least": framed.least},
        "layers_read": len(framed.layers[1]),
        "layers": [
            {"layer": layer, "paired_with": partner, "inherited": float(share)} for layer, partner, share in shares
        ],
        "calibration": {"source": CALIBRATION, "pairs": PAIRS, "largest": LARGEST},
    }
