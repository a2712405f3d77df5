"""The results of a run of `watch` as messages: the body for a webhook of Slack or of Discord, and issues in Markdown.

Names, bases and reasons are untrusted: no mention, link or markup in one has an effect, and however many and long they
are, a message stays within the limits of both services. What it leaves out is in the ledger. There is an issue for each
model with a contradicted claim; a program may post it unchanged, and it is never longer than GitHub allows.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hf_lineage.annotate import NO_MORE, NONE, figures, share
from hf_lineage.errors import printable
from hf_lineage.report.formats import escaped, markdown_table, paragraph
from hf_lineage.report.words import advice, wording
from hf_lineage.watch.ledger import Claim, Entry

ERROR, VERDICT = "ERROR", "Verdict"
"""The word for a model that could not be checked, and the column in which it stands."""


@dataclass(frozen=True)
class Page:
    """The content of a page, independent of the format."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    sentences: Sequence[str]
    document: dict[str, Any]


TITLE = "Lineage of what changed"
MOST_ROWS, MOST_SENTENCES = 10, 5
"""The most rows and reasons in a message: Slack takes 50 blocks, and a notice is read at a glance."""
LONGEST_CELL, LONGEST_SENTENCE = 100, 250
LONGEST_DESCRIPTION = 4096
"""Characters of a Discord embed's description."""
COLOURS = {0: 0x2DA44E, 1: 0xCF222E, 2: 0xBC4C00, 3: 0x9A6700}
"""The colour beside a Discord embed, by the exit code of the run."""
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_PUNCTUATION = re.compile(r"([!-$&-+\-.:-@\[-`{-~])")


def slack(page: Page) -> str:
    """Return a page as the body of an incoming webhook of Slack.

    What is untrusted stands in plain text, which Slack does not interpret; only the address of a model is markup.
    """
    sections = [
        {"type": "section", "text": _link(row[0]), "fields": [_plain(cell) for cell in _cells(page, row)]}
        for row in page.rows[:MOST_ROWS]
    ]
    body = {
        "text": html.escape(f"{TITLE}: {page.sentences[-1]}", quote=False),
        "blocks": [
            {"type": "header", "text": _plain(TITLE)},
            {"type": "section", "text": _plain(_total(page))},
            *sections,
            {"type": "context", "elements": [_plain("\n".join((*_reasons(page), wording.MEANING)))]},
        ],
    }
    return json.dumps(body, indent=2) + "\n"


def discord(page: Page) -> str:
    """Return a page as the body of a webhook of Discord, which notifies nobody whatever stands in it."""
    rows = (_discord_line(page, row) for row in page.rows[:MOST_ROWS])
    lines = [_discord_escaped(_total(page)), *rows, *map(_discord_escaped, _reasons(page))]
    embed = {
        "title": TITLE,
        "description": _within(lines, LONGEST_DESCRIPTION),
        "color": COLOURS[page.document.get("exit_code", 0)],
        "footer": {"text": wording.MEANING},
    }
    body = {"embeds": [embed], "allowed_mentions": {"parse": []}}
    return json.dumps(body, indent=2) + "\n"


def _cells(page: Page, row: Sequence[str]) -> Iterator[str]:
    """The message about a model, the verdict first."""
    cells = [pair for pair in zip(page.columns[1:], row[1:], strict=True) if pair[1] != NONE]
    for column, cell in sorted(cells, key=lambda pair: pair[0] != VERDICT):
        yield f"{column}: {printable(cell, LONGEST_CELL)}"


def _total(page: Page) -> str:
    """The sentence that counts, and how much else there is."""
    hidden = max(0, len(page.rows) - MOST_ROWS) + max(0, len(page.sentences) - 1 - MOST_SENTENCES)
    return page.sentences[-1] + (f" {hidden} lines are left out here." if hidden else "")


def _reasons(page: Page) -> list[str]:
    return [printable(reason, LONGEST_SENTENCE) for reason in page.sentences[:-1][:MOST_SENTENCES]]


def _address(model: str) -> str:
    """The page of a model on the Hub; empty for what is no name of one."""
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{model}" if _HUB_NAME.fullmatch(model) else ""


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _link(model: str) -> dict[str, Any]:
    """A model as a link to it."""
    if address := _address(model):
        return {"type": "mrkdwn", "text": f"<{address}|{model}>", "verbatim": True}
    return _plain(printable(model, LONGEST_CELL))


def _discord_escaped(text: str) -> str:
    """Text in which no character is markup: a backslash takes links, mentions and addresses apart."""
    return _PUNCTUATION.sub(r"\\\1", text)


def _discord_line(page: Page, row: Sequence[str]) -> str:
    model, address = _discord_escaped(printable(row[0], 200)), _address(row[0])
    cells = _discord_escaped(", ".join(_cells(page, row)).removeprefix(f"{VERDICT}: "))
    return f"[{model}](<{address}>): {cells}" if address else f"{model}: {cells}"


def _within(lines: Sequence[str], limit: int) -> str:
    """As many lines as fit, whole ones only, and a sentence about the others."""
    text = "\n".join(lines)
    while len(text.encode("utf-16-le")) > 2 * limit:  # JavaScript's characters
        lines = lines[:-1]
        text = "\n".join((*lines, "The rest does not fit here\\."))
    return text


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
        f"{paragraph(entry.model)} declares a base, but its weights do not show that they come from it. It was checked "
        f"at commit {escaped(entry.commit)} on {entry.checked_at:%Y-%m-%d} by hf-lineage {escaped(entry.tool.version)}."
    )
    yield markdown_table(COLUMNS, map(_cells_of_claim, shown))
    if hidden:
        yield f"The ledger has {hidden} more."
    yield "Check it yourself:"
    # Indented and not fenced: no text within one line can end an indented block.
    yield "\n".join(f"    {printable(claim.command)}" for claim in shown)
    yield f"{NO_MORE} {wording.MEANING}"
    yield "\n".join(f"- {limit}" for limit in advice.LIMITS)


def _cells_of_claim(claim: Claim) -> tuple[str, ...]:
    base, commit = printable(claim.base, 200), claim.base_commit or NONE
    score, p_value = figures(claim.score, claim.p_value_adjusted)
    inherited = share(claim.inherited.share if claim.inherited else None)
    return base, commit, ", ".join(claim.sources), score, inherited, p_value
