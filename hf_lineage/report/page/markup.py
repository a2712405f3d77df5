"""HTML and SVG from values: an element is a function call, and whatever is not Markup already is escaped."""

from __future__ import annotations

import html

from hf_lineage.errors import printable

LONGEST = 500
"""Characters of a name that are shown; the Hub allows 96 on either side of the slash."""
LONGEST_ESCAPE = len(r"\U0010ffff")
"""Characters that one character takes at most once it is shown escaped."""
_VOID = frozenset({"link", "meta"})


class Markup(str):
    """Text that is HTML or SVG already."""

    __slots__ = ()


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """Return an element; an attribute that is None is left out, and `class_`, `aria_label` stand for class, aria-label.

    >>> tag("p", "a < b", tag("b", "c"), class_="x")
    '<p class="x">a &lt; b<b>c</b></p>'
    """
    named = {key.strip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    start = "".join(f' {key}="{escaped(value)}"' for key, value in named.items())
    return Markup(f"<{name}{start}>" + ("" if name in _VOID else f"{joined(*content)}</{name}>"))


def joined(*content: object) -> Markup:
    """Return one thing after another."""
    return Markup("".join(map(escaped, content)))


def escaped(value: object) -> Markup:
    r"""Return a value as text that cannot leave its place; control and direction-changing characters are shown.

    >>> escaped("<a>"), escaped(1 / 3), escaped(chr(0x202E))
    ('&lt;a&gt;', '0.333333', '\\u202e')
    """
    if isinstance(value, Markup):
        return value
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return Markup(html.escape(printable(text, LONGEST_ESCAPE * len(text))))


def identifier(name: str) -> Markup:
    """Return an untrusted name, set apart: it may wrap anywhere, and turns no text around it."""
    return tag("bdi", printable(name, LONGEST), class_="id")
