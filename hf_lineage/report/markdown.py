"""A report as Markdown with untrusted names escaped, and the outputs of the GitHub Action."""

import re
from collections.abc import Iterable, Iterator, Sequence

from hf_lineage import __version__
from hf_lineage.checking.report import Report
from hf_lineage.checking.result import Finding
from hf_lineage.errors import printable
from hf_lineage.evidence.verdict import Evidence, Word
from hf_lineage.options import in_words, moment
from hf_lineage.report import verdicts, wording
from hf_lineage.report.command import of_report, public
from hf_lineage.report.findings import explain_findings, reasons, state_first, state_outcome, summarize
from hf_lineage.report.json import encode
from hf_lineage.report.wording import bar_cells, columns


def render(report: Report, explain: bool = False) -> str:
    """Return the report as GitHub-flavoured Markdown."""
    repeat, report = of_report(report, "--format", "markdown"), public(report)
    headline = "Compared with" if any(row.model for row in report.rows) else "Lineage of"
    blocks = [f"### {headline} {escape_line(report.model)}"]
    if report.commit:
        blocks.append(f"At commit {escape_line(report.commit)}.")
    if report.rows:
        blocks.append(table(columns(report, explain), wording.rows(report, explain)))
    blocks += [paragraph(sentence) for sentence in (reasons(report) if explain else summarize(report))]
    if explain:
        for title, block in explain_findings(report):
            blocks += [f"#### {escape_line(title)}", *_blocks(block)]
        blocks += ["\n".join(f"- {limit}" for limit in limits)] if (limits := verdicts.describe_limits(report)) else []
    bases = {row.claim.base: row.base_commit for row in report.rows if row.base_commit}
    bases |= {row.model: row.model_commit for row in report.rows if row.model_commit}
    commits = "".join(f"; {escape_line(base)} at commit {escape_line(commit)}" for base, commit in bases.items())
    when = f"Checked on {in_words(moment(report.checked_at))} by hf-lineage {__version__}{commits}."
    again = f"Again: <code>{escape_line(repeat)}</code>"
    blocks.append(f"<sub>{escape_line(wording.settings(report))} {wording.MEANING} {when} {again}</sub>")
    return "\n\n".join(blocks) + "\n"


def _blocks(block: Finding | Evidence) -> Iterator[str]:
    if isinstance(block, Evidence):
        yield table(verdicts.LAYER_COLUMNS, map(verdicts.layer_cells, verdicts.layer_rows(block)))
        yield from map(paragraph, verdicts.null_sentences(block))
        return
    yield from (table(one.columns, one.rows) for one in block.tables)
    if block.picture:
        yield table(("", "Share", "From", "To"), map(bar_cells, block.picture.bars))
    yield from (paragraph(f"{detail}.") for detail in block.details)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, every cell escaped."""
    lines = [columns, ["---"] * len(columns), *([escape_line(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escape_line(text: str) -> str:
    """Return text within a line that is neither Markdown nor HTML, mentions nobody, and becomes no link."""
    plain = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = re.sub(r"([\\`*_{}\[\]()#+!|~$])", r"\\\1", plain).replace("@", "&#64;").replace("://", "&#58;//")
    return re.sub(r"(?i)\bwww\.", lambda match: f"{match[0][:-1]}&#46;", plain)


def paragraph(text: str) -> str:
    """Return text escaped as a block of its own or the beginning of one: no list, heading, rule or indented code."""
    return re.sub(r"^(\d{1,9}(?=\.( |$))|(?=[-=:]))", r"\1\\", escape_line(text.strip(" ")))


def render_github(report: Report, _explain: bool = False) -> str:
    """Return the outputs of the claim that decides, the first of the worst, and a summary as a JSON object."""
    sentences, row = (*state_first(report), *map(state_outcome, report.rows)), report.worst
    best, p_value = (wording.best(row), wording.p_value(row)) if row else (None, None)
    score, p_text = "" if best is None else f"{best.comparison.score:.4g}", "" if p_value is None else f"{p_value:.4g}"
    outputs = {"verdict": str(report.code.word), "code": report.code}
    outputs["verified"] = "true" if report.code.word is Word.VERIFIED else "false"
    outputs |= {"score": score, "p-value": p_text}
    codes = {"exit_code": int(report.exit_code), "unaccepted": int(report.policy_exit_code), "unmet": report.unmet}
    policy = {"undeclared_parent": report.has_undeclared, "fail_on": report.policy and report.policy.fail_on}
    message = printable("; ".join(sentences) or wording.NOTHING_DECLARED)
    texts = {"title": f"Lineage of {printable(report.model, 200)}", "message": message, "summary": render(report)}
    return encode({**codes, **policy, **texts, "outputs": outputs})
