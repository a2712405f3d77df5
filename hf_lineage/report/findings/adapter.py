"""Test of an adapter: by projection, by layer, in words and as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.evidence.adapters import Trace
from hf_lineage.evidence.judging import least_effect, named
from hf_lineage.report.findings.finding import Finding, Table
from hf_lineage.report.words import sentences, wording

COLUMNS = ("Projection", "Rows permuted", "Layers", "z", "p")
NUMERIC = (2, 3, 4)
"""The columns of figures."""
MEANING = sentences("trace")["meaning"]


def describe(report: Report, row: Row) -> Finding | None:
    """Return what the adapter shows of its base; None where none was tested."""
    trace = row.verdict.trace
    if trace is None:
        return None
    columns = ("Layer", *(f"z of {role}" for role in trace.by_role))
    tables = (
        Table("by projection", COLUMNS, tuple(_cells(trace)), NUMERIC),
        Table("projections by layer", columns, tuple(_layer_cells(trace)), tuple(range(len(columns)))),
    )
    values = _values(trace, report.options.alpha)
    sentences = tuple(_sentences(trace, row.layers))
    return Finding("Adapter", wording.about(row), sentences, (MEANING,), tables, values=values)


def _cells(trace: Trace) -> Iterator[tuple[str, ...]]:
    """Yield a line for each projection: what is permuted, in how many layers, z and its own p."""
    for role in trace.by_role:
        count = len({layer for other, layer in zip(trace.roles, trace.layers, strict=True) if other == role})
        yield role, _permuted(role), str(count), f"{trace.z_of(role):.1f}", f"{trace.p_of(role):.3g}"


def _permuted(role: str) -> str:
    """Return what the rows of an adapted matrix of this role are."""
    from hf_lineage.checking.adapters import ROWS

    return ROWS[role]


def _layer_cells(trace: Trace) -> Iterator[tuple[str, ...]]:
    """Yield a line for each layer with z of each projection, a dash where it has none; of experts the mean."""
    by_place: dict[tuple[int, str], list[float]] = {}
    for role, layer, z in zip(trace.roles, trace.layers, trace.z_of_blocks, strict=True):
        by_place.setdefault((layer, role), []).append(float(z))
    for layer in sorted(set(trace.layers)):
        each = (by_place.get((layer, role)) for role in trace.by_role)
        yield str(layer), *("-" if zs is None else f"{np.mean(zs):.1f}" for zs in each)


def _sentences(trace: Trace, layers: int | None) -> Iterator[str]:
    """Yield how the adapter was tested, in how many layers, and how large what it adds is."""
    each = ", ".join(f"{role} z {trace.z_of(role):.1f} (p {trace.p_of(role):.3g})" for role in trace.by_role)
    several = ", the largest of all statistics and their sum under the same ones"
    count = f"{trace.permutations} permutations and as many flips{several if len(trace.by_role) > 1 else ''}"
    yield f"trace by projection: {each}; p = {trace.p_value:.3g} from {count}"
    tested = sorted(set(trace.layers))
    if layers is not None and trace.analyses > 1:
        yield (
            f"tested in {len(tested)} of {layers} layers ({named(tested)}), drawn in a random order, at one of "
            f"{trace.analyses} interim analyses; p is corrected for them (Bonferroni); --budget full reads all layers"
        )
    yield f"what the adapter adds is {float(np.mean(trace.sizes)):.2g} times as large as the weights"


def _values(trace: Trace, alpha: float) -> dict[str, Any]:
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
        "projections": [_projection(trace, role) for role in trace.by_role],
    }


def _projection(trace: Trace, role: str) -> dict[str, Any]:
    rows = [number for number, other in enumerate(trace.roles) if other == role]
    return {
        "projection": role,
        "permuted": _permuted(role),
        "z": trace.z_of(role),
        "p_value": trace.p_of(role),
        "layers": [
            {
                "layer": trace.layers[row],
                "z": float(trace.z_of_blocks[row]),
                "directions": float(trace.directions[row]),
                "size": float(trace.sizes[row]) if np.isfinite(trace.sizes[row]) else None,
            }
            for row in rows
        ],
    }
