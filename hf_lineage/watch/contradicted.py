"""An issue for each model with a contradicted claim, in Markdown that a program may post unchanged.

Untrusted names are escaped, and an issue is never longer than GitHub allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hf_lineage.annotate import NO_MORE, NONE, figures, share
from hf_lineage.errors import printable
from hf_lineage.report.formats import escaped, markdown_table, paragraph
from hf_lineage.report.words import wording
from hf_lineage.watch.ledger import Claim, Entry

COLUMNS = ("Declared base", "At commit", "Declared in", "Score", "Inherited", "p")
MOST_CLAIMS = 10
"""The most claims in an issue, which may have 65536 characters."""
CONTRADICTED = "UNRELATED"


def issues(entries: Iterable[Entry]) -> dict[str, str]:
    """Return an issue for each model with a contradicted claim, by file name: a title, an empty line, the text.

    One commit always has the same title, so that an issue is not opened twice.
    """
    return {
        f"{entry.model.replace('/', '--')}--{entry.commit}.md": "\n\n".join(_issue(entry, contradicted)) + "\n"
        for entry in entries
        if (contradicted := [claim for claim in entry.claims if claim.verdict == CONTRADICTED])
    }


def _issue(entry: Entry, contradicted: list[Claim]) -> Iterator[str]:
    shown, hidden = contradicted[:MOST_CLAIMS], len(contradicted[MOST_CLAIMS:])
    yield f"Lineage contradicted: {entry.model} @ {entry.commit[:12]}"
    yield (
        f"{paragraph(entry.model)} declares a base, but its weights do not show that they come from it. Checked "
        f"checked at commit {escaped(entry.commit)} on {entry.checked_at:%Y-%m-%d} by hf-lineage "
        f"{escaped(entry.tool.version)}."
    )
    yield markdown_table(COLUMNS, map(_cells, shown))
    if hidden:
        yield f"The ledger has {hidden} more."
    yield "Check it yourself:"
    # Indented and not fenced: no text within one line can end an indented block.
    yield "\n".join(f"    {printable(claim.command)}" for claim in shown)
    yield f"{NO_MORE} {wording.MEANING}"
    yield "\n".join(f"- {limit}" for limit in wording.LIMITS)


def _cells(claim: Claim) -> tuple[str, ...]:
    base, commit = printable(claim.base, 200), claim.base_commit or NONE
    score, p_value = figures(claim.score, claim.p_value_adjusted)
    inherited = share(claim.inherited.share if claim.inherited else None)
    return base, commit, ", ".join(claim.sources), score, inherited, p_value
