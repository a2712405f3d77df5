"""Pictures in SVG: the few shapes that all of them are drawn with, scales, and the steps of an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from markupsafe import Markup

from hf_lineage.errors import printable
from hf_lineage.report.page.templates import escaped

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


def group(*parts: object, **attributes: object) -> Markup:
    """Return some shapes as one, with attributes of all of them."""
    return element("g", *parts, **attributes)


def text(words: str, x: float, y: float, kind: str = "tick", anchor: str | None = None, **more: object) -> Markup:
    """Return words at a place; `anchor` says whether they start, end or have their middle there."""
    return element("text", words, kind=kind or None, x=x, y=y, text_anchor=anchor, **more)


def rect(x: float, y: float, width: float, height: float, kind: str | None = None, **more: object) -> Markup:
    """Return a rectangle."""
    return element("rect", x=x, y=y, width=width, height=height, kind=kind, **more)


def path(line: str, kind: str | None = None, **more: object) -> Markup:
    """Return a line, in the language of the attribute `d`."""
    return element("path", d=line, kind=kind, **more)


def mark(shape: str, x: float, y: float, size: float, kind: str) -> Markup:
    """Return a circle, a square or a diamond around a place: not colour alone tells marks apart."""
    if shape == "circle":
        return element("circle", cx=x, cy=y, r=size, kind=kind)
    if shape == "square":
        return rect(x - size, y - size, 2 * size, 2 * size, kind)
    return path(f"M{x - size:g} {y:g}l{size:g} -{size:g}l{size:g} {size:g}l-{size:g} {size:g}z", kind)


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
