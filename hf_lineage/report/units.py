"""Units, parts and adapters in words: those that come from the base, and which do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hf_lineage.checking.report import Report
from hf_lineage.checking.result import Bar, Bars, ClaimResult, Finding, Table
from hf_lineage.errors import printable
from hf_lineage.evidence import unit_comparison as frames
from hf_lineage.evidence.evaluate import name_layers
from hf_lineage.evidence.unit_comparison import UnitComparison, through
from hf_lineage.evidence.unit_order import PLACES
from hf_lineage.lora.gradient_alignment import Trace, least_effect
from hf_lineage.lora.placement import ROWS
from hf_lineage.report import wording
from hf_lineage.report.verdicts import sentences

STATISTICS = {PLACES: "units in the same places are alike", "ranks": "the ranks of matched units agree"}


def describe_units(comparison: UnitComparison, row: ClaimResult, _report: Report) -> Finding:
    """Return how the two models were seen unit by unit, and what the order of units shows."""
    frame, order, read, depth = comparison.coordinates, comparison.order, comparison.layers[1], comparison.depth
    through_few = {
        frames.TOKEN: f"through {frame.tokens:,} tokens",
        frames.RESIDUAL: "in the residual stream",
        frames.PROCRUSTES: "in coordinates that fit best",
    }
    tested = "" if comparison.p_value is None else f", order p = {comparison.p_value:.3g}"
    summary = f"units seen {through_few[frame.name]}: {wording.print_share(comparison)} inherited{tested}"
    some = f", in {len(read)} of {depth} layers ({name_layers(read)})" if len(read) < depth else ""
    unit_by_unit = f"unit by unit, seen {through(comparison)}: {wording.share(comparison)} inherited{some}"
    if order is None:
        in_order = "the order of units is not tested: no two units match"
    else:
        by = "; ".join(f"{STATISTICS[name]}, z {z:.1f}" for name, z in order.z.items())
        tests = f", corrected for {comparison.tests} tests of the claim (Bonferroni)" if comparison.tests > 1 else ""
        drawn = f"{order.draws:,} permutations among units of a layer that read and write as much"
        in_order = f"order of units: {by}; p = {comparison.p_value:.3g} from {drawn}{tests}"
    values = _unit_values(comparison)
    return Finding("Hidden units", wording.about(row), (summary,), (unit_by_unit, in_order), values=values)


def _unit_values(comparison: UnitComparison) -> dict[str, Any]:
    frame, order, inherited = comparison.coordinates, comparison.order, comparison.inherited
    shares = zip(comparison.layers[1], comparison.partners, inherited.by_layer, strict=True)
    low, high = inherited.interval
    return {
        **{"frame": frame.name, "tokens": frame.tokens or None, "tokens_by": frame.by or None},
        "p_value": None if order is None else order.p_value,
        **{"p_value_adjusted": comparison.p_value, "tests": comparison.tests},
        "z": {} if order is None else {name: z for name, z in order.z.items() if math.isfinite(z)},
        "permutations": 0 if order is None else order.draws,
        "inherited": {"share": inherited.share, "low": low, "high": high, "at_least": comparison.least},
        "layers_read": len(comparison.layers[1]),
        "layers": [
            {"layer": layer, "paired_with": partner, "inherited": float(share)} for layer, partner, share in shares
        ],
        "calibration": {"source": frames.CALIBRATION, "pairs": frames.PAIRS, "largest": frames.LARGEST},
    }


def describe_parts(_parts: Sequence[str], report: Report) -> Finding:
    """Return the rows of all parts beside each other; of a model with a tower the language model is no part."""
    lines, bars, values = list[tuple[str, ...]](), list[Bar](), list[dict[str, object]]()
    for row in report.rows:
        part, base, verdict = printable(row.part, 100), printable(row.claim.base, 200), row.verdict
        measured, name = wording.measured_share(row), part or "the model itself"
        share = measured.share if measured else None
        lines.append((name, base, verdict.label, "" if share is None else f"{share:.0%}"))
        if measured:
            bars.append(Bar(f"{name}: {base}", measured.share, *measured.interval, pale=not verdict.is_related))
        outcome = {"verdict": verdict.word, "code": verdict.code, "verified": verdict.verified}
        values.append({"part": part, "base": base, **outcome, "inherited": share})
    return Finding(
        "The parts side by side",
        details=("Nothing about one part follows from another: each is compared with its own counterpart.",),
        tables=(Table("part by part", ("Part", "Base", "Verdict", "Inherited"), tuple(lines), numeric=(3,)),),
        picture=Bars(tuple(bars), "How much of what each part writes is inherited.") if bars else None,
        values=values,
    )


def describe_adapter(trace: Trace, row: ClaimResult, report: Report) -> Finding:
    """Return what the adapter shows of its base, by projection, and by layer with a dash where it has none."""
    by_place: dict[tuple[int, str], list[float]] = {}
    for role, layer, z in zip(trace.roles, trace.layers, trace.z_of_blocks, strict=True):
        by_place.setdefault((layer, role), []).append(float(z))
    projections, layers = [], []
    for role in trace.by_role:
        count = str(sum(of == role for _, of in by_place))
        projections.append((role, ROWS[role], count, f"{trace.z_of(role):.1f}", f"{trace.p_of(role):.3g}"))
    for layer in sorted(set(trace.layers)):
        each = (by_place.get((layer, role)) for role in trace.by_role)  # of experts the mean
        layers.append((str(layer), *("-" if zs is None else f"{np.mean(zs):.1f}" for zs in each)))
    columns = ("Layer", *(f"z of {role}" for role in trace.by_role))
    tables = (
        Table("by projection", ("Projection", "Rows permuted", "Layers", "z", "p"), tuple(projections), (2, 3, 4)),
        Table("projections by layer", columns, tuple(layers), tuple(range(len(columns)))),
    )
    by_role = ", ".join(f"{role} z {trace.z_of(role):.1f} (p {trace.p_of(role):.3g})" for role in trace.by_role)
    several = ", the largest of all statistics and their sum under the same ones" if len(trace.by_role) > 1 else ""
    count = f"{trace.permutations} permutations and as many flips{several}"
    texts, tested = [f"trace by projection: {by_role}; p = {trace.p_value:.3g} from {count}"], sorted(set(trace.layers))
    if row.layers is not None and trace.analyses > 1:
        texts.append(
            f"tested in {len(tested)} of {row.layers} layers ({name_layers(tested)}), drawn in a random order, at one "
            f"of {trace.analyses} interim analyses; p is corrected for them (Bonferroni); --budget full reads all "
            "layers"
        )
    texts.append(f"what the adapter adds is {float(np.mean(trace.sizes)):.2g} times as large as the weights")
    values, meaning = _adapter_values(trace, report.options.alpha), sentences("trace")["meaning"]
    return Finding("Adapter", wording.about(row), tuple(texts), (meaning,), tables, values=values)


def _adapter_values(trace: Trace, alpha: float) -> dict[str, Any]:
    projections = []
    for role in trace.by_role:
        layers = []
        for row, layer in enumerate(trace.layers):
            if trace.roles[row] == role:
                size = float(trace.sizes[row]) if np.isfinite(trace.sizes[row]) else None
                z, directions = float(trace.z_of_blocks[row]), float(trace.directions[row])
                layers.append({"layer": layer, "z": z, "directions": directions, "size": size})
        tests = {"permuted": ROWS[role], "z": trace.z_of(role), "p_value": trace.p_of(role)}
        projections.append({"projection": role, **tests, "layers": layers})
    values = {"p_value": trace.p_value, "p_permutations": trace.p_values[0], "p_signs": trace.p_values[1]}
    values |= {"power": trace.power(alpha), "effect": trace.effect, "least_effect": least_effect(trace, alpha)}
    values |= {name: getattr(trace, name) for name in ("permutations", "seed", "analyses")}
    return values | {"projections": projections}
