"""A report as a flat table: a dictionary for each claim, and the table that a notebook shows."""

from __future__ import annotations

from typing import Any

from hf_lineage.checking import Report
from hf_lineage.report.findings import reasons
from hf_lineage.report.formats import json
from hf_lineage.report.page import fill
from hf_lineage.report.words import columns, wording

SAME = (
    "base", "base_commit", "relation", "part", "compared", "verdict", "kind", "rests_on", "verified", "exit_code",
    "reason", "score", "p_value_adjusted",
)  # fmt: skip
"""Keys of a claim in the JSON report that stand for themselves."""


def rows(report: Report) -> list[dict[str, Any]]:
    """Return a flat dictionary for each claim; what was not measured is None."""
    document = json.document(report)
    return [{key: document[key] for key in ("model", "commit")} | _row(claim) for claim in document["claims"]]


def _row(claim: dict[str, Any]) -> dict[str, Any]:
    inherited, seen = claim["inherited"] or {}, claim.get("relation_seen") or {}
    return {
        **{key: claim[key] for key in SAME},
        "inherited": inherited.get("share"),
        "inherited_low": inherited.get("low"),
        "inherited_high": inherited.get("high"),
        "relation_seen": seen.get("words"),
        "layers": claim["layers"],
        "recipe": claim["recipe"]["name"],
        "sources": ", ".join(claim["sources"]),
    }


def fragment(report: Report) -> str:
    """Return the table of the text report and its sentences as HTML that no style belongs to."""
    return fill(
        "formats/flat.html.j2",
        name=f"{report.model} @ {report.commit}" if report.commit else report.model,
        columns=columns(report),
        rows=[cells for row in report.rows for cells in wording.cells(row)],
        reasons=reasons(report),
    )
