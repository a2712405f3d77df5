"""A report for machines: one JSON object that `schema.json` beside this file describes, versioned."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hf_lineage import __version__
from hf_lineage.pipeline import Report, Row
from hf_lineage.report import wording
from hf_lineage.report.encoding import encode
from hf_lineage.verdict import Evidence, Verdict

SCHEMA_VERSION = 1
"""Raised when a key changes its meaning or goes away; new keys may come at any time."""
SCHEMA = Path(__file__).with_name("schema.json")


def render(report: Report, explain: bool = False) -> str:
    """Return the report as JSON; `explain` adds nothing, every number is there anyway."""
    del explain
    return encode(document(report))


def document(report: Report) -> dict[str, Any]:
    """Return the report as plain values."""
    options = report.options
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "hf-lineage", "version": __version__},
        "model": report.model,
        "revision": report.revision,
        "exit_code": int(report.exit_code),
        "recipe": asdict(options.recipe),
        "test": {"alpha": options.alpha, "permutations": options.permutations, "seed": options.seed},
        "conflicts": list(report.conflicts),
        "claims": [_claim(row) for row in report.rows],
    }


def _claim(row: Row) -> dict[str, Any]:
    return {
        "base": row.claim.base,
        "base_revision": row.base_revision,
        "relation": row.claim.relation,
        "sources": list(row.claim.sources),
        "verdict": row.verdict.name,
        "reason": row.verdict.reason,
        "layers": row.layers,
        "notes": list(row.notes),
        "signatures": {
            "base": row.base_origin and asdict(row.base_origin),
            "model": row.model_origin and asdict(row.model_origin),
        },
        "traffic": {name: asdict(moved) for name, moved in row.traffic.items()},
        "paths": [_path(path, found, row.verdict.by_path[path]) for path, found in row.verdict.evidence.items()],
    }


def _path(path: str, found: Evidence, single: Verdict) -> dict[str, Any]:
    null, known = found.permutation, found.empirical
    error = found.comparison.standard_error
    return {
        "path": path,
        "verdict": single.name,
        "reason": single.reason,
        "score": found.comparison.score,
        "standard_error": error if math.isfinite(error) else None,
        "p_value": null.p_value,
        "p_value_holm": found.p_value,
        "looks": found.looks,
        "layers_read": len(found.layers[1]),
        "permutation_null": {
            "observed": null.observed,
            "coordinates": null.coordinates,
            "mean": float(null.scores.mean()),
            "standard_deviation": float(null.scores.std()),
            "maximum": float(null.scores.max()),
            "z": null.z,
        },
        "empirical_null": known
        and {
            "threshold": known.threshold,
            "p_value": known.p_value(found.comparison.score),
            "source": known.source,
            "scores": dict(known.scores),
        },
        "layers": [
            {"layer": layer, "paired_with": partner, "cosine": cosine, "s_base": ours, "s_model": theirs}
            for layer, partner, cosine, ours, theirs in wording.layer_rows(found)
        ],
    }
