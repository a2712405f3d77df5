"""An issue for each model whose claim is refuted: Markdown that a bot may post as it is.

Names written by strangers are escaped, and nothing is longer than what GitHub takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hf_lineage.errors import printable
from hf_lineage.ledger import Claim, Entry
from hf_lineage.report import wording
from hf_lineage.report.markdown import escaped, table
from hf_lineage.report.section import NO_MORE, NONE, figures, share

COLUMNS = ("Declared base", "At commit", "Declared in", "Score", "Inherited", "p")
MOST_CLAIMS = 10
"""In an issue, which may have 65536 characters."""
REFUTED = "UNRELATED"


def issues(entries: Iterable[Entry]) -> dict[str, str]:
    """Return by file name an issue for each model that is refuted: a title, an empty line, the text.

    The title is the same whenever the same commit is refuted, so that nobody has to be told twice.
    """
    return {
        f"{entry.model.replace('/', '--')}--{entry.commit}.md": "\n\n".join(_issue(entry, refuted)) + "\n"
        for entry in entries
        if (refuted := [claim for claim in entry.claims if claim.verdict == REFUTED])
    }


def _issue(entry: Entry, refuted: list[Claim]) -> Iterator[str]:
    shown, hidden = refuted[:MOST_CLAIMS], len(refuted[MOST_CLAIMS:])
    yield f"Lineage refuted: {entry.model} @ {entry.commit[:12]}"
    yield (
        f"{escaped(entry.model)} declares a base, and its weights do not show that they come from it. It was checked "
        f"at commit {escaped(entry.commit)} on {entry.checked_at:%Y-%m-%d} by hf-lineage {escaped(entry.version)}."
    )
    yield table(COLUMNS, map(_cells, shown))
    if hidden:
        yield f"The ledger has {hidden} more."
    yield "Check it yourself:"
    # Indented and not fenced: nothing that stands in one line can end it.
    yield "\n".join(f"    {printable(claim.command)}" for claim in shown)
    yield f"{NO_MORE} {wording.MEANING}"
    yield "\n".join(f"- {limit}" for limit in wording.LIMITS)


def _cells(claim: Claim) -> tuple[str, ...]:
    base, commit = printable(claim.base, 200), claim.base_commit or NONE
    score, p_value = figures(claim.score, claim.p_value)
    return base, commit, ", ".join(claim.sources), score, share(claim.inherited), p_value
