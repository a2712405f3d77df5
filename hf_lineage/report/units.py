"""Units, parts and adapters in words: those that come from the base, and which do not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hf_lineage.checking.report import Report
from hf_lineage.checking.result import Bar, Bars, ClaimResult, Finding, Table
from hf_lineage.errors import printable
from hf_lineage.evidence.evaluate import name_layers
from hf_lineage.evidence.unit_comparison import (
    CALIBRATION,
    LARGEST,
    PAIRS,
    PROCRUSTES,
    RESIDUAL,
    TOKEN,
    UnitComparison,
    through,
)
from hf_lineage.evidence.unit_order import PLACES
from hf_lineage.lora.gradient_alignment import Trace, least_effect
from hf_lineage.lora.placement import ROWS
from hf_lineage.report import wording
from hf_lineage.report.verdicts import sentences

SEEN = {
    TOKEN: "through {0.tokens:,} tokens",
    RESIDUAL: "in the residual stream",
    PROCRUSTES: "in coordinates that fit best",
}
"""Frame through which units are seen -> few words for it."""
STATISTICS = {PLACES: "units in the same places are alike", "ranks": "the ranks of matched units agree"}
"""Statistic -> what it tests."""


def describe_units(comparison: UnitComparison, row: ClaimResult, _report: Report) -> Finding:
    """Return what was seen unit by unit."""
    how = SEEN[comparison.coordinates.name].format(comparison.coordinates)
    order = "" if comparison.p_value is None else f", order p = {comparison.p_value:.3g}"
    summary = f"units seen {how}: {wording.print_share(comparison)} inherited{order}"
    return Finding(
        "Hidden units", wording.about(row), (summary,), tuple(_details(comparison)), values=_unit_values(comparison)
    )


def _details(comparison: UnitComparison) -> Iterator[str]:
    """Yield how the two models were seen unit by unit, and what their order shows."""
    read, depth = len(comparison.layers[1]), comparison.depth
    some = f", in {read} of {depth} layers ({name_layers(comparison.layers[1])})" if read < depth else ""
    yield f"unit by unit, seen {through(comparison)}: {wording.share(comparison)} inherited{some}"
    if comparison.order is None:
        yield "the order of units is not tested: no two units match"
    else:
        by = "; ".join(f"{STATISTICS[name]}, z {z:.1f}" for name, z in comparison.order.z.items())
        tests = f", corrected for {comparison.tests} tests of the claim (Bonferroni)" if comparison.tests > 1 else ""
        drawn = f"{comparison.order.draws:,} permutations among units of a layer that read and write as much"
        yield f"order of units: {by}; p = {comparison.p_value:.3g} from {drawn}{tests}"


def _unit_values(comparison: UnitComparison) -> dict[str, Any]:
    """Return the measurements as plain values."""
    low, high = comparison.inherited.interval
    order = comparison.order
    shares = zip(comparison.layers[1], comparison.partners, comparison.inherited.by_layer, strict=True)
    return {
        "frame": comparison.coordinates.name,
        "tokens": comparison.coordinates.tokens or None,
        "tokens_by": comparison.coordinates.by or None,
        "p_value": None if order is None else order.p_value,
        "p_value_adjusted": comparison.p_value,
        "tests": comparison.tests,
        "z": {} if order is None else {name: z for name, z in order.z.items() if math.isfinite(z)},
        "permutations": 0 if order is None else order.draws,
        "inherited": {"share": comparison.inherited.share, "low": low, "high": high, "at_least": comparison.least},
        "layers_read": len(comparison.layers[1]),
        "layers": [
            {"layer": layer, "paired_with": partner, "inherited": float(share)} for layer, partner, share in shares
        ],
        "calibration": {"source": CALIBRATION, "pairs": PAIRS, "largest": LARGEST},
    }


ITSELF = "the model itself"
"""Name of the rows that are about no part: of a model with a tower its language model."""


def describe_parts(_parts: Sequence[str], report: Report) -> Finding:
    """Return the rows of all parts beside each other."""
    lines, bars, values = list[tuple[str, ...]](), list[Bar](), list[dict[str, object]]()
    for row in report.rows:
        part, base, verdict = printable(row.part, 100), printable(row.claim.base, 200), row.verdict
        measured = wording.measured_share(row)
        share = measured.share if measured else None
        lines.append((part or ITSELF, base, verdict.label, "" if share is None else f"{share:.0%}"))
        if measured:
            label = f"{part or ITSELF}: {base}"
            bars.append(Bar(label, measured.share, *measured.interval, pale=not verdict.is_related))
        outcome = {"verdict": verdict.word, "code": verdict.code, "verified": verdict.verified}
        values.append({"part": part, "base": base, **outcome, "inherited": share})
    return Finding(
        "The parts side by side",
        details=("Nothing about one part follows from another: each is compared with its own counterpart.",),
        tables=(Table("part by part", ("Part", "Base", "Verdict", "Inherited"), tuple(lines), numeric=(3,)),),
        picture=Bars(tuple(bars), "How much of what each part writes is inherited.") if bars else None,
        values=values,
    )


MEANING = sentences("trace")["meaning"]


def describe_adapter(trace: Trace, row: ClaimResult, report: Report) -> Finding:
    """Return what the adapter shows of its base."""
    columns = ("Layer", *(f"z of {role}" for role in trace.by_role))
    first = ("Projection", "Rows permuted", "Layers", "z", "p")
    tables = (
        Table("by projection", first, tuple(_cells(trace)), (2, 3, 4)),
        Table("projections by layer", columns, tuple(_layer_cells(trace)), tuple(range(len(columns)))),
    )
    values = _adapter_values(trace, report.options.alpha)
    sentences = tuple(_adapter_sentences(trace, row.layers))
    return Finding("Adapter", wording.about(row), sentences, (MEANING,), tables, values=values)


def _cells(trace: Trace) -> Iterator[tuple[str, ...]]:
    """Yield a line for each projection: what is permuted, in how many layers, z and its own p."""
    for role in trace.by_role:
        count = len({layer for other, layer in zip(trace.roles, trace.layers, strict=True) if other == role})
        yield role, ROWS[role], str(count), f"{trace.z_of(role):.1f}", f"{trace.p_of(role):.3g}"


def _layer_cells(trace: Trace) -> Iterator[tuple[str, ...]]:
    """Yield a line for each layer with z of each projection, a dash where it has none; of experts the mean."""
    by_place: dict[tuple[int, str], list[float]] = {}
    for role, layer, z in zip(trace.roles, trace.layers, trace.z_of_blocks, strict=True):
        by_place.setdefault((layer, role), []).append(float(z))
    for layer in sorted(set(trace.layers)):
        each = (by_place.get((layer, role)) for role in trace.by_role)
        yield str(layer), *("-" if zs is None else f"{np.mean(zs):.1f}" for zs in each)


def _adapter_sentences(trace: Trace, layers: int | None) -> Iterator[str]:
    """Yield how the adapter was tested, in how many layers, and how large what it adds is."""
    each = ", ".join(f"{role} z {trace.z_of(role):.1f} (p {trace.p_of(role):.3g})" for role in trace.by_role)
    several = ", the largest of all statistics and their sum under the same ones"
    count = f"{trace.permutations} permutations and as many flips{several if len(trace.by_role) > 1 else ''}"
    yield f"trace by projection: {each}; p = {trace.p_value:.3g} from {count}"
    tested = sorted(set(trace.layers))
    if layers is not None and trace.analyses > 1:
        yield (
            f"tested in {len(tested)} of {layers} layers ({name_layers(tested)}), drawn in a random order, at one of "
            f"{trace.analyses} interim analyses; p is corrected for them (Bonferroni); --budget full reads all layers"
        )
    yield f"what the adapter adds is {float(np.mean(trace.sizes)):.2g} times as large as the weights"


def _adapter_values(trace: Trace, alpha: float) -> dict[str, Any]:
    """Return the measurements as plain values."""
    return {
        "p_value": trace.p_value,
        "p_permutations": trace.p_values[0],
        "p_signs": trace.p_values[1],
        "power": trace.power(alpha),
        "effect": trace.effect,
        "least_effect": least_effect(trace, alpha),
        "permutations": trace.permutations,
        "seed": trace.seed,
        "analyses": trace.analyses,
        "projections": [
            {
                "projection": role,
                "permuted": ROWS[role],
                "z": trace.z_of(role),
                "p_value": trace.p_of(role),
                "layers": [
                    {
                        "layer": layer,
                        "z": float(trace.z_of_blocks[row]),
                        "directions": float(trace.directions[row]),
                        "size": float(trace.sizes[row]) if np.isfinite(trace.sizes[row]) else None,
                    }
                    for row, (other, layer) in enumerate(zip(trace.roles, trace.layers, strict=True))
                    if other == role
                ],
            }
            for role in trace.by_role
        ],
    }
