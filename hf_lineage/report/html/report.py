"""A report that people open: one self-contained page without scripts, readable on a phone, in the dark and on paper.

Several claims are shown at a glance: one line for each parent, with a bar for what is inherited from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from markupsafe import Markup

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row, moment
from hf_lineage.errors import printable
from hf_lineage.evidence import Code
from hf_lineage.report import page
from hf_lineage.report.findings import describe_report
from hf_lineage.report.html.claim import CAPTIONS, figures, state_beside, view_claim
from hf_lineage.report.tree import figure
from hf_lineage.report.words import commands as command
from hf_lineage.report.words import limits, public, texts, whole, wording


@dataclass(frozen=True)
class Line:
    """One claim of several."""

    row: Row
    bars: tuple[tuple[Markup | str, str], ...]
    """Pictures, each with the figures that it shows; where there are figures alone the picture is empty."""
    about: str
    """Layers that come from the base, or the beginning of a reason, which the claim has in full."""


def overview_line(report: Report, row: Row) -> Line:
    """Return one claim at a glance."""
    about = next(map(whole, state_beside(report, row)), "") or _first(wording.reason(row))
    return Line(row, tuple(_bars(row)), about)


def _bars(row: Row) -> Iterator[tuple[Markup | str, str]]:
    evidence, (score, share, p_value) = wording.best(row), figures(row)
    framed = row.verdict.framed if row.verdict.by_units else None
    inherited = framed.inherited if framed else evidence.inherited if evidence else None
    if inherited is not None:
        yield page.share_bar(inherited.share, inherited.interval), f"{share} inherited"
    if evidence is not None:
        low, high = evidence.permutation.range
        words = f"Score {score}, p = {p_value}; by chance {low:.3f} to {high:.3f}."
        yield page.score_bar(evidence.permutation), words
    elif p_value != "–":
        yield "", f"p = {p_value}"


def _first(reason: str) -> str:
    short = reason if len(reason) <= 160 else f"{reason[:160].rsplit(' ', 1)[0]} …"
    return whole(short) if short else ""


def render(report: Report, explain: bool = False) -> str:
    """Return the report as a page; `explain` unfolds the tables of layers, every number is there anyway."""
    repeat, time = command.of_report(report, "--format", "html"), moment(report.checked_at)
    report = replace(public(report), checked_at=time)
    rows, several = report.rows, len(report.rows) > 1
    measured = any(row.verdict.evidence or row.verdict.framed or row.verdict.trace for row in rows)
    bases = {row.claim.base: row for row in reversed(rows)}
    findings = [one for _, one in describe_report(report)]
    apart = [one for one in findings if page.is_shown_apart(one) and not one.first]
    besides = (one for one in findings if one not in apart and not one.first)
    remarks = (*(sentence for one in besides for sentence in one.statements), *wording.remarks(report))
    compared = {row.model or report.model: page.commit_of_model(report, row) for row in rows}
    models = [("Model", model, commit) for model, commit in compared.items()]
    models += [("Base", row.claim.base, page.commit_of_base(row)) for row in reversed(bases.values())]
    return page.fill(
        "html/report.html.j2",
        report=report,
        name=printable(report.model, 200),
        verdicts=", ".join(dict.fromkeys(row.verdict.label for row in rows)) or Code.UNDECLARED.label,
        counts=Counter(row.verdict.label for row in rows),
        commit=page.commit_of_model(report),
        several=several,
        explain=explain,
        family=figure(report),
        lines=[overview_line(report, row) for row in rows] if several else (),
        shares_measured=any(wording.inherited_share(row) is not None for row in rows),
        first=[(one.title, page.show(one, explain=explain)) for one in findings if one.first],
        findings=[(one.title, page.show(one, explain=explain)) for one in apart],
        claims=[view_claim(report, number, not several, explain) for number in range(len(rows))],
        captions=CAPTIONS if several and any(row.verdict.evidence for row in rows) else {},
        undeclared=texts()[Code.UNDECLARED],
        remarks=[page.without_hint(remark) for remark in remarks],
        limits=limits.describe_limits(report),
        models=models if several else (),
        command=repeat,
        settings=wording.settings(report) if measured else "",
    )
