"""What every page is made of: its head, which lets it load nothing, and the small parts that come again and again."""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from hf_lineage import __version__
from hf_lineage.checking.results import in_words, stamp
from hf_lineage.evidence import Verdict
from hf_lineage.report.page.markup import Markup, tag
from hf_lineage.report.words import KINDS

CARDS = "cards"
STYLE = Path(__file__).with_name("page.css")
SIGNS = {
    "good": "M5 12.5l4.5 4.5L19 7.5",
    "part": "M5.5 13.5c2-3.6 4.4-3.6 6.5-1.5s4.5 2.1 6.5-1.5",
    "bad": "M7 7l10 10M17 7L7 17",
    "open": "M9 9.2a3.1 3.1 0 1 1 4.6 2.7c-1 .6-1.6 1.2-1.6 2.4M12 17.6v.01",
}
"""Tick, wave, cross and question mark on 24 by 24."""


def document(title: str, *body: object) -> str:
    """Return a whole page that runs no scripts, loads nothing, and tells no other site where it was opened."""
    style = STYLE.read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy(style)),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"hf-lineage {__version__}"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', *body), lang='en')}\n"


def policy(style: str) -> str:
    """Return what the page may do: show its own style sheet, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], name: str, kind: str | None = None) -> Markup:
    """Return a table that a reader without a pointer can scroll; `name` is what it is called where it is not seen.

    Of the kind CARDS each row is a small table of its own on a narrow screen, with its columns named beside its cells.
    """
    head = tag("thead", tag("tr", *(tag("th", column, scope="col") for column in columns)))
    named = columns[1:] if kind == CARDS else [None] * len(columns)
    body = (
        tag("tr", tag("th", first, scope="row") if first else tag("td"),
            *(tag("td", cell, data_label=label) for label, cell in zip(named, rest, strict=False)))
        for first, *rest in rows
    )  # fmt: skip
    content = tag("table", tag("caption", name, class_="hidden"), head, tag("tbody", *body), class_=kind)
    return tag("div", content, class_="scroll", role="region", aria_label=name, tabindex=0)


def time_of(moment: datetime.datetime) -> Markup:
    """Return a time in words, for programs as well."""
    return tag("time", in_words(moment), datetime=stamp(moment))


def word(verdict: Verdict) -> Markup:
    """Return the words of a verdict in its colour."""
    return tag("span", verdict.words, class_=f"word {KINDS[verdict.kind].tone}")


def sign(tone: str) -> Markup:
    """Return the sign of a tone, for which the words beside it stand."""
    return tag("svg", tag("circle", cx=12, cy=12, r=12), tag("path", d=SIGNS[tone]),
               **{"class": f"sign {tone}", "viewBox": "0 0 24 24", "aria-hidden": "true"})  # fmt: skip


def whole(sentence: str) -> str:
    """Return a sentence with a capital in front, unless it begins with a name, and a stop behind.

    >>> whole("score 0.9"), whole("All 6 layers."), whole("org/name: no weights")
    ('Score 0.9.', 'All 6 layers.', 'org/name: no weights.')
    """
    first, stop = sentence.partition(" ")[0], "" if sentence.endswith((".", "…")) else "."
    return f"{sentence[:1].upper() if first.isalpha() else sentence[:1]}{sentence[1:]}{stop}"


def code(text: str, name: str) -> Markup:
    """Return a command as a block that can be reached with the keyboard."""
    return tag("pre", tag("code", text), tabindex=0, role="region", aria_label=name)


def linked(text: object, address: str | None) -> Markup:
    """Return a text as a link; as it is where there is no address."""
    return tag("a", text, href=address, rel="noreferrer") if address else tag("span", text)
