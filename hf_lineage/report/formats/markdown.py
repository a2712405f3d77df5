"""A report for step summaries, comments and model cards; untrusted names are escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from hf_lineage import __version__
from hf_lineage.checking import Report
from hf_lineage.checking.results import in_words, moment
from hf_lineage.errors import printable
from hf_lineage.report.findings import Finding, describe_claim, describe_report, reasons, summarize
from hf_lineage.report.words import columns, limits, numbers, public, wording
from hf_lineage.report.words import commands as command


def render(report: Report, explain: bool = False) -> str:
    """Return the report as GitHub-flavoured Markdown."""
    repeat, report = command.of_report(report, "--format", "markdown"), public(report)
    headline = "Compared with" if any(row.model for row in report.rows) else "Lineage of"
    blocks = [f"### {headline} {escaped(report.model)}"]
    if report.commit:
        blocks.append(f"At commit {escaped(report.commit)}.")
    if report.rows:
        blocks.append(markdown_table(columns(report, explain), wording.rows(report, explain)))
    blocks += [paragraph(sentence) for sentence in (reasons(report) if explain else summarize(report))]
    if explain:
        for row in report.rows:
            blocks += [block for _, finding in describe_claim(report, row) for block in _explained(finding)]
            for path, evidence in row.verdict.evidence.items():
                rows = map(numbers.layer_cells, numbers.layer_rows(evidence))
                blocks.append(f"#### {escaped(wording.about(row))}, {escaped(path)}")
                blocks.append(markdown_table(numbers.LAYER_COLUMNS, rows))
                blocks += [paragraph(sentence) for sentence in numbers.null_sentences(evidence)]
        blocks += [block for _, finding in describe_report(report) for block in _explained(finding)]
        blocks += ["\n".join(f"- {limit}" for limit in shown)] if (shown := limits.describe_limits(report)) else []
    blocks.append(f"<sub>{escaped(wording.settings(report))} {wording.MEANING} {_made(report, repeat)}</sub>")
    return "\n\n".join(blocks) + "\n"


def _made(report: Report, repeat: str) -> str:
    """Return when and by what the report was made, of which commits, and what makes it again."""
    bases = {row.claim.base: row.base_commit for row in report.rows if row.base_commit}
    bases |= {row.model: row.model_commit for row in report.rows if row.model_commit}
    commits = "".join(f"; {escaped(base)} at commit {escaped(commit)}" for base, commit in bases.items())
    when = f"Checked on {in_words(moment(report.checked_at))} by hf-lineage {__version__}{commits}."
    return f"{when} Again: <code>{escaped(repeat)}</code>"


def _explained(finding: Finding) -> Iterator[str]:
    """Yield the tables, the picture and the details of a finding; nothing where it has none."""
    if finding.tables or finding.details or finding.picture:
        yield f"#### {escaped(finding.named(finding.title))}"
    yield from (markdown_table(table.columns, table.rows) for table in finding.tables)
    if finding.picture:
        bars = ((one.label, f"{one.value:.2f}", f"{one.low:.2f}", f"{one.high:.2f}") for one in finding.picture.bars)
        yield markdown_table(("", "Share", "From", "To"), bars)
    yield from (paragraph(f"{detail}.") for detail in finding.details)


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, every cell escaped."""
    lines = [columns, ["---"] * len(columns), *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escaped(text: str) -> str:
    """Return text within a line that is neither Markdown nor HTML, mentions nobody, and becomes no link."""
    plain = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = re.sub(r"([\\`*_{}\[\]()#+!|~$])", r"\\\1", plain).replace("@", "&#64;").replace("://", "&#58;//")
    return re.sub(r"(?i)\bwww\.", lambda match: f"{match[0][:-1]}&#46;", plain)


def paragraph(text: str) -> str:
    """Return text escaped as a block of its own or the beginning of one: no list, heading, rule or indented code."""
    return re.sub(r"^(\d{1,9}(?=\.( |$))|(?=[-=:]))", r"\1\\", escaped(text.strip(" ")))
