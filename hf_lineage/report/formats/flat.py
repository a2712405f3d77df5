"""A report as a flat table: a dictionary for each claim, and the table that a notebook shows."""

from __future__ import annotations

from typing import Any

from hf_lineage.checking import Report
from hf_lineage.report.findings import reasons
from hf_lineage.report.formats import json
from hf_lineage.report.page import identifier, joined, tag
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
    head = tag("tr", *(tag("th", column, scope="col") for column in columns(report)))
    lines = (tag("tr", *(tag("td", cell) for cell in line)) for row in report.rows for line in wording.cells(row))
    commit = f" @ {report.commit}" if report.commit else ""
    return joined(
        tag("p", "Lineage of ", identifier(f"{report.model}{commit}")),
        tag("table", tag("thead", head), tag("tbody", *lines)) if report.rows else "",
        *(tag("p", sentence) for sentence in reasons(report)),
        tag("p", tag("small", wording.MEANING)),
    )
