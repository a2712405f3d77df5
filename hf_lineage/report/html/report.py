"""A report that people open: one self-contained page without scripts, readable on a phone, in the dark and on paper."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hf_lineage.checking import Report
from hf_lineage.checking.results import moment
from hf_lineage.errors import printable
from hf_lineage.report.findings import describe_report
from hf_lineage.report.html.claim import view_claim
from hf_lineage.report.html.evidence import CAPTIONS
from hf_lineage.report.html.overview import overview_line
from hf_lineage.report.page import commit_of_base, commit_of_model, fill, is_shown_apart, show, without_hint
from hf_lineage.report.tree import figure
from hf_lineage.report.words import GIVEN, advice, limits, public, wording
from hf_lineage.report.words import commands as command


def render(report: Report, explain: bool = False) -> str:
    """Return the report as a page; `explain` unfolds the tables of layers, every number is there anyway."""
    repeat, time = command.of_report(report, "--format", "html"), moment(report.checked_at)
    report = replace(public(report), checked_at=time)
    rows, several = report.rows, len(report.rows) > 1
    measured = any(row.verdict.evidence or row.verdict.framed or row.verdict.trace for row in rows)
    bases = {row.claim.base: row for row in reversed(rows)}
    findings = [one for _, one in describe_report(report)]
    besides = (one for one in findings if not is_shown_apart(one) and not one.first)
    remarks = (*(sentence for one in besides for sentence in one.statements), *wording.remarks(report))
    models = [
        ("Model", report.model, commit_of_model(report)),
        *(("Base", row.claim.base, commit_of_base(row)) for row in reversed(bases.values())),
    ]
    return fill(
        "html/report.html.j2",
        report=report,
        name=printable(report.model, 200),
        verdicts=", ".join(dict.fromkeys(row.verdict.words for row in rows)) or "Nothing declared",
        counts=Counter(row.verdict.words for row in rows),
        commit=commit_of_model(report),
        several=several,
        explain=explain,
        family=figure(report),
        lines=[overview_line(report, row) for row in rows] if several else (),
        shares_measured=any(wording.inherited_share(row) is not None for row in rows),
        first=[(one.title, show(one, explain=explain)) for one in findings if one.first],
        findings=[(one.title, show(one, explain=explain)) for one in findings if is_shown_apart(one) and not one.first],
        claims=[view_claim(report, number, not several, explain) for number in range(len(rows))],
        captions=CAPTIONS if several and any(row.verdict.evidence for row in rows) else {},
        undeclared=advice.UNDECLARED,
        remarks=[without_hint(remark) for remark in remarks],
        limits=limits.describe_limits(report),
        models=models if several else (),
        given=GIVEN if report.as_name else "",
        command=repeat,
        settings=wording.settings(report) if measured else "",
    )
