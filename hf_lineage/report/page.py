"""Pages from templates, the shapes that pictures in SVG are drawn with, and any finding on a page.

Every page lets the browser load nothing, runs no scripts, and tells no other site where it was opened.

A commit has its address where it is on the Hub, else the reason why there is none.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from hf_lineage import __version__
from hf_lineage.checking.report import Report
from hf_lineage.checking.result import Bar, Finding, Row
from hf_lineage.errors import printable
from hf_lineage.hub import repo
from hf_lineage.hub.repo import hub_name
from hf_lineage.options import in_words, stamp
from hf_lineage.report import verdicts, wording
from hf_lineage.report.verdicts import texts
from hf_lineage.report.wording import whole
from hf_lineage.signature.values import Origin

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
    made.filters |= {"identifier": identifier, "whole": whole, "name": printable}
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


Scale = Callable[[float], float]


def element(name: str, /, *content: object, kind: object = None, **attributes: object) -> Markup:
    """Return an element; an attribute that is None is left out, and `kind`, `text_anchor` stand for class, text-anchor.

    >>> element("text", "a < b", element("title", "c"), kind="tick", x=1 / 3)
    Markup('<text x="0.333333" class="tick">a &lt; b<title>c</title></text>')
    """
    given = {**attributes, "class": kind}
    start = "".join(f' {key.replace("_", "-")}="{escaped(value)}"' for key, value in given.items() if value is not None)
    return Markup(f"<{name}{start}>{''.join(map(escaped, content))}</{name}>")  # noqa: S704 - all of it is escaped


def picture(
    kind: str,
    size: tuple[float, float],
    parts: Iterable[object],
    label: str,
    name: str = "",
    described: str = "",
    **more: object,
) -> Markup:
    """Return a picture of a size in pixels, with what it shows in words; `name` is unique on its page.

    The words are read out where the picture is not seen. Of a picture with a name a pointer shows them as well.
    """
    labels = {"aria_labelledby": f"{name}-title"} if name else {"aria_label": label}
    labels |= {"aria_describedby": f"{name}-desc"} if described else {}
    title = element("title", label, id=f"{name}-title") if name else ""
    return element(
        "svg",
        title,
        element("desc", described, id=f"{name}-desc") if described else "",
        *parts,
        kind=kind,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {size[0]:g} {size[1]:g}",
        role="img",
        **labels,
        **more,
    )


def text(words: str, x: float, y: float, kind: str = "tick", anchor: str | None = None, **more: object) -> Markup:
    """Return words at a place; `anchor` says whether they start, end or have their middle there."""
    return element("text", words, kind=kind or None, x=x, y=y, text_anchor=anchor, **more)


def rect(x: float, y: float, width: float, height: float, kind: str | None = None, **more: object) -> Markup:
    """Return a rectangle."""
    return element("rect", x=x, y=y, width=width, height=height, kind=kind, **more)


def path(line: str, kind: str | None = None, **more: object) -> Markup:
    """Return a line, in the language of the attribute `d`."""
    return element("path", d=line, kind=kind, **more)


def linear(low: float, high: float, start: float, stop: float) -> Scale:
    """Return the scale that leads from low and high to the pixels start and stop."""
    return lambda value: start + (value - low) / ((high - low) or 1) * (stop - start)


def round_steps(low: float, high: float, most: int) -> list[float]:
    """Return round numbers from low to high, at most so many and one."""
    rough = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * times for times in (1, 2, 2.5, 5, 10) if unit * times >= rough * 0.999)
    return [round(step * index, 12) + 0.0 for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def every(apart: float) -> int:
    """Return which numbers of layers are written where a number takes the room of so many: every, every second, fourth.

    >>> every(0.5), every(3)
    (1, 4)
    """
    return next(1 << power for power in range(32) if 1 << power >= apart)


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


def below(places: Iterable[tuple[float, str]], bottom: float) -> Iterator[Markup]:
    """Yield the numbers below an axis."""
    yield from (text(signed(number), x, bottom + 16, anchor="middle") for x, number in places)


def side_name(words: str, middle: float) -> Markup:
    """Return the name of the axis on the left, which is read upwards."""
    return text(words, 0, 0, "axis", "middle", transform=f"translate(13 {middle:g}) rotate(-90)")


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


def is_shown_apart(finding: Finding) -> bool:
    """Return whether a finding has more than sentences, and a part of the page for it."""
    return bool(finding.tables or finding.picture or (finding.details and not finding.in_verdict))


def show(finding: Finding, named: str = "", explain: bool = False) -> Markup:
    """Return what is below the title of a finding; `named` stands before the names of its tables, `explain` unfolds."""
    return fill(
        "finding.html.j2",
        finding=finding,
        named=named,
        explain=explain,
        bars=[(bar.label, draw(bar)) for bar in finding.picture.bars] if finding.picture else (),
        sentences=[without_hint(one) for one in (*finding.sentences, *finding.details)],
    )


def draw(bar: Bar) -> Markup:
    """Return a bar from nothing to a share of the whole, with its interval; no bar where that is too wide."""
    from hf_lineage.report.charts import interval_bar

    label = f"{bar.value:.2f} ({bar.low:.2f} to {bar.high:.2f})"
    fill = "share pale" if bar.pale else "share"
    return interval_bar(label, bar.value if bar.clear else None, (bar.low, bar.high), "line", fill)


FOLDER, STORED, UNREAD = "read from a folder", "given as a stored signature", "nothing of it was read"


@dataclass(frozen=True)
class Commit:
    """One commit, or why there is none."""

    name: str | None
    address: str | None = None
    """Address of its files on the Hub; None for a model that is not there."""
    reason: str = ""
    """Why it has no name."""


def commit_of_model(report: Report, row: Row | None = None) -> Commit:
    """Return the commit of the model that was checked, or of the one that a row of several is about."""
    if row and row.model:
        return _commit(row.model, row.model_commit, row.model_origin)
    remote = report.source.remote if report.source else None
    address = repo.files_at(remote, report.commit) if report.commit else None
    return Commit(report.commit, address, STORED if report.source is None else FOLDER)


def commit_of_base(row: Row) -> Commit:
    """Return the commit of the base; one that a stored signature names is not linked, nobody fetched it."""
    return _commit(row.claim.base, row.base_commit, row.base_origin)


def _commit(model: str, commit: str | None, origin: Origin | None) -> Commit:
    stored = origin is not None and origin.kind == "file"
    name = None if stored else hub_name(model)
    address = repo.files_at(name, commit) if commit else None
    return Commit(commit, address, STORED if stored else FOLDER if origin else UNREAD)
