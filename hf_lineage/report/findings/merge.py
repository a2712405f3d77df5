"""What every parent gave to a merge: in words, as plain values and as bars, beside what the merge declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.evidence import spans
from hf_lineage.evidence.derivation import MOST_LEFT, WIDEST, Parent, Share
from hf_lineage.report.page import Markup, identifier, tag

NO_PROBABILITY = (
    "A score tells how alike two models are: the scores of the parents of a merge are neither shares nor probabilities"
)
CAPTION = (
    "What every declared parent gave to the merge, by least squares on the matrices that read the stream. The line is "
    "the 99 % interval. A share is a figure beside the verdict and changes none: models of one family are RELATED "
    "whether or not one was merged into the other."
)
UNLIKE = 0.1
"""How far the shares of the layers must be apart to be named one by one."""
MOST_SPANS = 8
"""Groups of layers that are named."""
WIDTH, HEIGHT = 200, 16


def sentences(row: Row) -> Iterator[str]:
    """Yield what one parent gave, a sentence for each path; nothing for a row that is no parent of a merge."""
    parent = row.parent
    if parent is None:
        return
    start = f"{printable(row.claim.base, 200)}: "
    if parent.reason:
        yield f"{start}its share of the merge cannot be told: {printable(parent.reason, 500)}"
    for path, share in parent.shares.items():
        gave = outcome(parent.is_base, share.value, share)
        yield f"{start}gave {gave} of the merge along {path}{declared(parent, path)}{_by_layer(share)}"


def remarks(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what concerns all parents: what a score is not, and what none of them explains."""
    parents = [row.parent for row in rows if row.parent]
    if not parents:
        return
    yield NO_PROBABILITY
    left = {path: remainder for parent in parents for path, remainder in parent.remainders.items()}
    if far := {path: remainder for path, remainder in left.items() if remainder > MOST_LEFT}:
        sizes = ", ".join(f"{remainder:.2f} times along {path}" for path, remainder in far.items())
        yield (
            f"What no combination of the parents explains is, beside the distance between them, {sizes}: a method that "
            "drops or trims differences, training after the merge, or a parent that is not declared"
        )


class Interval(Protocol):
    """A share, measured or recorded."""

    @property
    def low(self) -> float:
        """The least that it may be."""

    @property
    def high(self) -> float:
        """The most that it may be."""

    @property
    def detected(self) -> bool:
        """Whether it is told from none."""


def outcome(is_base: bool, value: float, share: Interval) -> str:
    """Return in words what one parent gave along one path."""
    between = f"{figure(share.low)} to {figure(share.high)}"
    if is_base:
        return f"as the base {figure(value)} ({between})"
    if share.high - share.low > 2 * WIDEST:
        return f"a share that cannot be told from those of the others, between {between},"
    return f"{figure(value)} ({between})" if share.detected else f"no detectable share ({between})"


def declared(parent: Parent, path: str) -> str:
    """Return what the recipe says of a parent, as words that follow its share; empty if there is none."""
    if parent.is_base:
        return f"; the recipe ({parent.method}) takes differences from it"
    if path not in parent.declared:
        return f"; the recipe ({parent.method}) gives no weight" if parent.method else ""
    return f"; {figure(parent.declared[path])} by its recipe ({parent.method})"


def figure(value: float) -> str:
    """Return a share as it is printed.

    >>> figure(0.4999), figure(-0.001)
    ('0.50', '0.00')
    """
    shown = f"{value:.2f}"
    return shown.removeprefix("-") if float(shown) == 0 else shown


def _by_layer(share: Share) -> str:
    """The shares of the layers, where they are far apart."""
    layers = {number: value for number, (value, _) in sorted(share.layers.items())}
    if not layers or max(layers.values()) - min(layers.values()) <= UNLIKE:
        return ""
    groups: dict[str, list[int]] = {}
    for number, value in layers.items():
        groups.setdefault(figure(value), []).append(number)
    if len(groups) > MOST_SPANS:
        return f"; by layer {figure(min(layers.values()))} to {figure(max(layers.values()))}"
    return "; by layer " + ", ".join(f"{value} in {spans(numbers)}" for value, numbers in groups.items())


def values(parent: Parent) -> dict[str, Any]:
    """Return what is declared and measured of one parent as plain values."""
    return {
        "method": parent.method or None,
        "is_base": parent.is_base,
        "reason": parent.reason,
        "shares": {
            path: {
                "share": share.value,
                "low": share.low,
                "high": share.high,
                "detected": share.detected,
                "declared": parent.declared.get(path),
                "remainder": parent.remainders[path],
                "layers": {
                    str(number): {"share": one, "error": error} for number, (one, error) in share.layers.items()
                },
            }
            for path, share in parent.shares.items()
        },
    }


def section(rows: Sequence[Row]) -> Markup:
    """Return the part of a page with a bar for every parent; nothing if there is no merge."""
    parents = [(row, parent) for row in rows if (parent := row.parent)]
    if not parents:
        return Markup("")
    lines = (
        tag("tr", tag("th", identifier(row.claim.base), scope="row"), *map(_cell, _cells(parent, path, share)))
        for row, parent in parents
        for path, share in (parent.shares or dict.fromkeys(("–",))).items()
    )
    head = tag("tr", *(tag("th", name, scope="col") for name in ("Parent", "Path", "Share", "As a bar", "Recipe")))
    table = tag(
        "table",
        tag("caption", "shares of the merge", class_="hidden"),
        tag("thead", head),
        tag("tbody", *lines),
        class_="narrow",
    )
    scroll = tag("div", table, class_="scroll", role="region", aria_label="shares of the merge", tabindex=0)
    explained = (tag("p", f"{sentence}.", class_="exact") for sentence in remarks(rows))
    return tag("section", tag("h2", "Shares of the merge"), scroll, tag("p", CAPTION, class_="muted"), *explained)


def _cells(parent: Parent, path: str, share: Share | None) -> tuple[object, ...]:
    if share is None:
        return path, parent.reason, "", ""
    recipe = figure(parent.declared[path]) if path in parent.declared else "base" if parent.is_base else "–"
    return path, outcome(parent.is_base, share.value, share).rstrip(","), _bar(share), recipe


def _cell(content: object) -> Markup:
    return tag("td", content)


def _bar(share: Share) -> Markup:
    """A bar from nothing to the share, on a scale that reaches from nothing to the whole, and its interval."""
    start, end, low, high = (WIDTH * min(max(value, 0.0), 1.0) for value in (0.0, share.value, share.low, share.high))
    return tag(
        "svg",
        tag("rect", x=0, y=0, width=WIDTH, height=HEIGHT, class_="track"),
        tag("rect", x=start, y=0, width=end - start, height=HEIGHT, class_="share") if share.clear else "",
        tag("path", d=f"M{low:g} {HEIGHT / 2:g}H{max(high, low + 0.5):g}", class_="line"),
        **{"class": "small", "viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img"},
        aria_label=f"{figure(share.value)} ({figure(share.low)} to {figure(share.high)})",
    )
