"""Pages and pictures from templates.

Every page lets the browser load nothing, runs no scripts, and tells no other site where it was opened.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from hf_lineage import __version__
from hf_lineage.errors import printable
from hf_lineage.options import in_words, stamp
from hf_lineage.report import verdicts, wording
from hf_lineage.report.verdicts import texts
from hf_lineage.report.wording import whole

if TYPE_CHECKING:
    from jinja2 import Environment


LONGEST = 500
"""Characters of a name that are shown; the Hub allows 96 on either side of the slash."""
LONGEST_ESCAPE = len(r"\U0010ffff")
"""Characters that one character takes at most once it is shown escaped."""
STYLE = Path(__file__).with_name("page.css")
SIGNS = {
    "good": "M5 12.5l4.5 4.5L19 7.5",
    "part": "M5.5 13.5c2-3.6 4.4-3.6 6.5-1.5s4.5 2.1 6.5-1.5",
    "bad": "M7 7l10 10M17 7L7 17",
    "open": "M9 9.2a3.1 3.1 0 1 1 4.6 2.7c-1 .6-1.6 1.2-1.6 2.4M12 17.6v.01",
}
"""Tick, wave, cross and question mark on 24 by 24."""


def fill(template: str, **values: object) -> Markup:
    """Return what a template makes of values; it is named as in `tree.html.j2`, from the folder of reports."""
    return Markup(_environment().get_template(template).render(values))  # noqa: S704 - the engine escapes the values


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    style = STYLE.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    made.globals |= {
        "style": Markup(style),  # noqa: S704 - our own file
        "digest": digest,
        "version": __version__,
        "texts": texts(),
        "SIGNS": SIGNS,
        "meaning": wording.MEANING,
        "stamp": stamp,
        "in_words": in_words,
        "word": word,
        "LAYER_COLUMNS": verdicts.LAYER_COLUMNS,
    }
    made.filters |= {"identifier": identifier, "whole": whole, "name": printable, "signed": signed}
    return made


def shown(value: object) -> object:
    r"""Return a value as it is shown: markup as it is, of all else the text, with control characters escaped.

    >>> shown(1 / 3), shown(chr(0x202E)), escaped("<a>")
    ('0.333333', '\\u202e', Markup('&lt;a&gt;'))
    """
    if isinstance(value, Markup):
        return value
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return printable(text, LONGEST_ESCAPE * len(text))


def escaped(value: object) -> Markup:
    """Return a value as text that cannot leave its place."""
    return escape(shown(value))


def identifier(name: str) -> Markup:
    """Return an untrusted name, set apart: it may wrap anywhere, and turns no text around it."""
    return Markup('<bdi class="id">{}</bdi>').format(printable(name, LONGEST))


def word(words: str, tone: str) -> Markup:
    """Return the words of a verdict in the colour of its tone."""
    return Markup('<span class="word {}">{}</span>').format(tone, escaped(words))


def draw(macro: str, frame: Mapping[str, float], **values: object) -> Markup:
    """Return the picture that a macro of `charts.svg.j2` draws of values, on one line; `frame` has names for all."""
    drawn = getattr(_environment().get_template("charts.svg.j2").make_module(dict(frame)), macro)(**values)
    return Markup("".join(line.strip() for line in drawn.split("\n")))  # noqa: S704 - the engine escapes the values


def signed(number: str) -> str:
    """Return a number as it is printed, with a real minus sign."""
    return number.replace("-", "−")


def shortened(words: str, room: int) -> str:
    """Return words in so many letters.

    >>> shortened("org/model", 9), shortened("org/models", 9)
    ('org/model', 'org/mode…')
    """
    line = printable(words, 200)
    return line if len(line) <= room else f"{line[: room - 1]}…"


HINTS = (
    "; --budget full reads all layers",
    "; --no-cache reads the weights again",
    "; --no-cache reads the weights",
    "; if you are the publisher, add --policy own",
)
"""Ends of sentences that tell those who run the command something, which a page leaves out."""


def without_hint(sentence: str) -> str:
    """Return a sentence without what it tells those who run the command.

    >>> without_hint("the signature comes from the cache; --no-cache reads the weights again")
    'the signature comes from the cache'
    """
    return next((sentence.removesuffix(hint) for hint in HINTS if sentence.endswith(hint)), sentence)
