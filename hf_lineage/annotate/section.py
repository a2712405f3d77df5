"""Section of a model card: a table with the verdict of each claim, and one line that leads to every number.

Untrusted names are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator

from hf_lineage.report.formats import markdown_table, paragraph
from hf_lineage.report.record import FILE, HERE, Record, RecordedClaim
from hf_lineage.report.words import wording

COLUMNS = ("Base", "Verdict", "Score", "Inherited", "p")
UNDECLARED = "blend"
"""Name of the finding of a parent that the model does not name."""
NONE = "–"


def render(record: Record) -> str:
    """Return a record as Markdown of at most ten lines for one claim."""
    return "\n\n".join(_blocks(record))


def _blocks(record: Record) -> Iterator[str]:
    yield "## Lineage"
    if undeclared := record.findings.get(UNDECLARED):
        yield from map(paragraph, undeclared.sentences)
    yield markdown_table(COLUMNS, map(_cells, record.claims))
    for claim in record.claims:
        if claim.reason and not claim.verified:
            yield paragraph(f"{claim.base}: {claim.reason.removeprefix(f'{claim.base}: ')}")
    yield f"{_made(record)} Every number: [{FILE}]({FILE}). {wording.MEANING}"
    commands = dict.fromkeys(f"$ {claim.command}" for claim in record.claims)
    yield "\n".join(("```console", *commands, "```"))


def _cells(claim: RecordedClaim) -> tuple[str, ...]:
    score = NONE if claim.score is None else f"{claim.score:.3f}"
    p_value = NONE if claim.p_value_adjusted is None else f"{claim.p_value_adjusted:.3g}"
    share = NONE if claim.inherited is None else f"{claim.inherited.share:.0%}"
    return claim.base, claim.label, score, share, p_value


def _made(record: Record) -> str:
    """Return who checked which commits, and when, as a sentence."""
    commits = {claim.base: claim.base_commit for claim in record.claims if claim.base_commit}
    if record.model != HERE and record.commit:
        commits = {record.model: record.commit, **commits}
    at = f" ({paragraph(', '.join(f'{name} at {commit}' for name, commit in commits.items()))})" if commits else ""
    date = next((claim.date.isoformat() for claim in record.claims), NONE)
    return f"Checked on {date} by {record.tool.name} {record.tool.version}{at}."
