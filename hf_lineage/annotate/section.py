"""Section of a model card: a table with the verdict of each claim, and one line that leads to every number.

Untrusted names are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hf_lineage.errors import printable
from hf_lineage.evidence import Code
from hf_lineage.report.formats import RECORD, markdown_table, paragraph
from hf_lineage.report.words import wording

COLUMNS = ("Base", "Verdict", "Score", "Inherited", "p")
NONE = "–"
LONGEST = 500
"""Characters of a name or a reason."""


def render(document: Mapping[str, Any], first: Sequence[str] = ()) -> str:
    """Return a JSON report as Markdown of at most ten lines for one claim; sentences that come first are given."""
    return "\n\n".join(_blocks(document, first))


def _blocks(document: Mapping[str, Any], first: Sequence[str]) -> Iterator[str]:
    yield "## Lineage"
    yield from map(paragraph, first)
    yield markdown_table(COLUMNS, map(_cells, document["claims"]))
    for claim in document["claims"]:
        if claim["reason"] and not claim["verified"]:
            base, reason = (printable(claim[key], LONGEST) for key in ("base", "reason"))
            yield paragraph(f"{base}: {reason.removeprefix(f'{base}: ')}")
    yield f"{_made(document)} Every number: [{RECORD}]({RECORD}). {wording.MEANING}"
    commands = dict.fromkeys(f"$ {printable(claim['command'])}" for claim in document["claims"])
    yield "\n".join(("```console", *commands, "```"))


def _cells(claim: Mapping[str, Any]) -> tuple[str, ...]:
    score, p_value, inherited = claim["score"], claim["p_value_adjusted"], claim["inherited"]
    return (
        printable(claim["base"], LONGEST),
        Code(claim["code"]).label,
        NONE if score is None else f"{score:.3f}",
        NONE if inherited is None else f"{inherited['share']:.0%}",
        NONE if p_value is None else f"{p_value:.3g}",
    )


def _made(document: Mapping[str, Any]) -> str:
    """Return what checked which commits, as a sentence."""
    commits = {document["model"]: document["commit"]}
    commits |= {claim["base"]: claim["base_commit"] for claim in document["claims"]}
    named = ", ".join(f"{printable(name, LONGEST)} at {commit}" for name, commit in commits.items() if commit)
    return f"Checked by {document['tool']['name']} {document['tool']['version']}{named and f' ({paragraph(named)})'}."
