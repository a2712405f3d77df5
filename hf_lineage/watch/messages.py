"""The results of a run of `watch` as the body of a message that a webhook of Slack or of Discord takes.

Names, bases and reasons are untrusted: no mention, link or markup in one has an effect, and however many and long they
are, the message stays within the limits of both services. What a message leaves out is in the ledger.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from hf_lineage.annotate import NONE
from hf_lineage.errors import printable
from hf_lineage.report.words import wording
from hf_lineage.watch.page import VERDICT, Page

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
        "text": _slack_escaped(f"{TITLE}: {page.sentences[-1]}"),
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


def _slack_escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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
