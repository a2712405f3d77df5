"""Contributions of all parents to a merge, beside what it declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.evidence import derivation
from hf_lineage.evidence.judging import spans
from hf_lineage.report.findings.finding import Bar, Bars, Finding, Table
from hf_lineage.report.words import sentences

NO_PROBABILITY = sentences("merge")["score"]
CAPTION = sentences("merge")["caption"]
COLUMNS = ("Parent", "Path", "Share", "Recipe")
UNLIKE = 0.1
"""Difference of the shares of layers from which on they are named one by one."""
MOST_SPANS = 8
"""Groups of layers that are named."""


def describe_parent(_report: Report, row: Row) -> Finding | None:
    """Return what one parent gave, a sentence for each path; None for a row that is no parent of a merge."""
    if row.parent is None:
        return None
    base = printable(row.claim.base, 200)
    sentences = tuple(_sentences(row.parent))
    first = next(iter(sentences), "")
    brief = f"it {first}" if first.startswith("gave") else first
    return Finding("Merge contribution", base, sentences, values=_values(row.parent), brief=brief)


def describe_merge(report: Report) -> Finding | None:
    """Return the shares of all parents side by side, and what concerns them all; None if there is no merge."""
    parents = [(row.claim.base, row.parent) for row in report.rows if row.parent]
    if not parents:
        return None
    lines = tuple(line for base, parent in parents for line in _lines(base, parent))
    bars = (
        Bar(f"{printable(base, 200)}, {path}", share.value, share.low, share.high, share.clear)
        for base, parent in parents
        for path, share in parent.shares.items()
    )
    return Finding(
        "Merge contributions",
        sentences=(NO_PROBABILITY, *_unexplained([parent for _, parent in parents])),
        tables=(Table("merge contributions", COLUMNS, lines),),
        picture=Bars(tuple(bars), CAPTION),
    )


def describe_share(is_base: bool, value: float, share: derivation.Share) -> str:
    """Return in words what one parent gave along one path."""
    between = f"{figure(share.low)} to {figure(share.high)}"
    if is_base:
        return f"as the base {figure(value)} ({between})"
    if share.high - share.low > 2 * derivation.WIDEST:
        return f"a contribution between {between}, which cannot be separated from those of the other parents,"
    return f"{figure(value)} ({between})" if share.detected else f"no detectable contribution ({between})"


def figure(value: float) -> str:
    """Return a share as it is printed.

    >>> figure(0.4999), figure(-0.001)
    ('0.50', '0.00')
    """
    shown = f"{value:.2f}"
    return shown.removeprefix("-") if float(shown) == 0 else shown


def _sentences(parent: derivation.Parent) -> Iterator[str]:
    if parent.reason:
        yield f"its merge contribution is not known: {printable(parent.reason, 500)}"
    for path, share in parent.shares.items():
        gave = describe_share(parent.is_base, share.value, share)
        yield f"gave {gave} of the merge along {path}{_declared(parent, path)}{_by_layer(share)}"


def _unexplained(parents: list[derivation.Parent]) -> Iterator[str]:
    """Yield what none of the parents explains, where that is much."""
    left = {path: remainder for parent in parents for path, remainder in parent.remainders.items()}
    if far := {path: remainder for path, remainder in left.items() if remainder > derivation.MOST_LEFT}:
        sizes = ", ".join(f"{remainder:.2f} times (along {path})" for path, remainder in far.items())
        yield (
            f"The parents do not explain all of the merge. What remains is {sizes} the distance between the parents. "
            "The cause may be a method that drops or trims differences, training after the merge, or a parent that "
            "is not declared"
        )


def _declared(parent: derivation.Parent, path: str) -> str:
    """Return what the recipe says of a parent, as words that follow its share; empty if there is none."""
    if parent.is_base:
        return f"; the recipe ({parent.method}) takes differences from it"
    if path not in parent.declared:
        return f"; the recipe ({parent.method}) gives no weight" if parent.method else ""
    return f"; {figure(parent.declared[path])} by its recipe ({parent.method})"


def _by_layer(share: derivation.Share) -> str:
    """Return the shares of the layers, where they are far apart."""
    layers = {number: value for number, (value, _) in sorted(share.layers.items())}
    if not layers or max(layers.values()) - min(layers.values()) <= UNLIKE:
        return ""
    groups: dict[str, list[int]] = {}
    for number, value in layers.items():
        groups.setdefault(figure(value), []).append(number)
    if len(groups) > MOST_SPANS:
        return f"; by layer {figure(min(layers.values()))} to {figure(max(layers.values()))}"
    return "; by layer " + ", ".join(f"{value} in {spans(numbers)}" for value, numbers in groups.items())


def _lines(base: str, parent: derivation.Parent) -> Iterator[tuple[str, ...]]:
    if not parent.shares:
        yield printable(base, 200), "–", printable(parent.reason, 500), ""
    for path, share in parent.shares.items():
        recipe = figure(parent.declared[path]) if path in parent.declared else "base" if parent.is_base else "–"
        yield printable(base, 200), path, describe_share(parent.is_base, share.value, share).rstrip(","), recipe


def _values(parent: derivation.Parent) -> dict[str, Any]:
    """Return what is declared and measured of one parent."""
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
