"""Merges in words: the contributions of all parents, beside what a model declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hf_lineage.checking.report import Combination, Report
from hf_lineage.checking.result import Bar, Bars, ClaimResult, Finding, Table
from hf_lineage.errors import printable
from hf_lineage.evidence import merge
from hf_lineage.evidence.evaluate import spans
from hf_lineage.evidence.merge import Blend, BlendPlace, Parent, Share
from hf_lineage.report.verdicts import sentences

NO_PROBABILITY = sentences("merge")["score"]
CAPTION = sentences("merge")["caption"]
UNLIKE = 0.1
"""Difference of the shares of layers from which on they are named one by one."""
MOST_SPANS = 8
"""Groups of layers that are named."""


def describe_parent(parent: Parent, row: ClaimResult, _report: Report) -> Finding:
    """Return what one parent gave, a sentence for each path."""
    base = printable(row.claim.base, 200)
    sentences = tuple(_sentences(parent))
    first = next(iter(sentences), "")
    brief = f"it {first}" if first.startswith("gave") else first
    return Finding("Merge contribution", base, sentences, values=_values(parent), brief=brief)


def describe_merge(rows: Sequence[ClaimResult], _report: Report) -> Finding:
    """Return the shares of all parents side by side, and what concerns them all."""
    parents = [(printable(row.claim.base, 200), row.parent) for row in rows if row.parent]
    lines = tuple(line for base, parent in parents for line in _lines(base, parent))
    bars = (
        Bar(f"{base}, {path}", share.value, share.low, share.high, share.clear)
        for base, parent in parents
        for path, share in parent.shares.items()
    )
    return Finding(
        "Merge contributions",
        sentences=(NO_PROBABILITY, *_describe_rest([parent for _, parent in parents])),
        tables=(Table("merge contributions", ("Parent", "Path", "Share", "Recipe"), lines),),
        picture=Bars(tuple(bars), CAPTION),
    )


def describe_share(is_base: bool, share: Share) -> str:
    """Return in words what one parent gave along one path."""
    between = f"{figure(share.low)} to {figure(share.high)}"
    if is_base:
        return f"as the base {figure(share.value)} ({between})"
    if not share.clear:
        return f"a contribution between {between}, which cannot be separated from those of the other parents,"
    return f"{figure(share.value)} ({between})" if share.detected else f"no detectable contribution ({between})"


def figure(value: float) -> str:
    """Return a share as it is printed.

    >>> figure(0.4999), figure(-0.001)
    ('0.50', '0.00')
    """
    text = f"{value:.2f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _sentences(parent: Parent) -> Iterator[str]:
    if parent.reason:
        yield f"its merge contribution is not known: {printable(parent.reason, 500)}"
    for path, share in parent.shares.items():
        gave = describe_share(parent.is_base, share)
        yield f"gave {gave} of the merge along {path}{_describe_declared(parent, path)}{_by_layer(share)}"


def _describe_rest(parents: Sequence[Parent]) -> Iterator[str]:
    """Yield what none of the parents explains, where that is much."""
    left = {path: remainder for parent in parents for path, remainder in parent.remainders.items()}
    if far := {path: remainder for path, remainder in left.items() if remainder > merge.MOST_LEFT}:
        sizes = ", ".join(f"{remainder:.2f} times (along {path})" for path, remainder in far.items())
        yield (
            f"The parents do not explain all of the merge. What remains is {sizes} the distance between the parents. "
            "The cause may be a method that drops or trims differences, training after the merge, or a parent that "
            "is not declared"
        )


def _describe_declared(parent: Parent, path: str) -> str:
    """Return what the recipe says of a parent, as words that follow its share; empty if there is none."""
    if parent.is_base:
        return f"; the recipe ({parent.method}) takes differences from it"
    if path not in parent.declared:
        return f"; the recipe ({parent.method}) gives no weight" if parent.method else ""
    return f"; {figure(parent.declared[path])} by its recipe ({parent.method})"


def _by_layer(share: Share) -> str:
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


def _lines(base: str, parent: Parent) -> Iterator[tuple[str, ...]]:
    if not parent.shares:
        yield base, "–", printable(parent.reason, 500), ""
    for path, share in parent.shares.items():
        recipe = figure(parent.declared[path]) if path in parent.declared else "base" if parent.is_base else "–"
        yield base, path, describe_share(parent.is_base, share).rstrip(","), recipe


def _values(parent: Parent) -> dict[str, Any]:
    """Return what is declared and measured of one parent."""
    return {
        "method": parent.method or None,
        "is_base": parent.is_base,
        "reason": parent.reason,
        "shares": {
            path: {
                **_share_values(share),
                "declared": parent.declared.get(path),
                "remainder": parent.remainders[path],
                "layers": {str(layer): {"share": one, "error": error} for layer, (one, error) in share.layers.items()},
            }
            for path, share in parent.shares.items()
        },
    }


def describe_shares(blended: Combination, report: Report) -> Finding | None:
    """Return what the known parents of a model make up of it; None where no share shows."""
    if not any(isinstance(share, Share) for share in blended.blend.shares.parents):
        return None
    undeclared = bool(blended.undeclared)
    sentences = () if any(row.parent for row in report.rows) and not undeclared else describe_blend(blended)
    title = "Undeclared parent" if undeclared else "Blend"
    return Finding(title, sentences=sentences, values=blend_values(blended), first=undeclared)


def describe_blend(blended: Combination) -> tuple[str, ...]:
    """Return in sentences what the parents make up of a model, and what shows of each."""
    return (*_whole(blended), *_each(blended))


def describe_sum(blended: Combination) -> str:
    """Return in words what the parents make up of the model.

    It is as `57% (± 0.2) of org/b and 43% (± 0.2) of org/a explain 99.9% of the model`.
    """
    shares = [
        (share, printable(name, 200))
        for name, share in zip(blended.parents, blended.blend.shares.parents, strict=True)
        if isinstance(share, Share)
    ]
    largest = sorted([one for one in shares if one[0].detected] or shares, key=lambda one: -one[0].value)
    parts = [
        f"{share.value:.0%} (± {max(0.1, 50 * (share.high - share.low)):.1f}) of {name}" for share, name in largest
    ]
    verb = "explain" if len(parts) > 1 else "explains"
    explained = min(0.999, int(1000 * blended.blend.explained) / 1000)  # all of it is never printed as explained
    return f"{_list_words(parts)} {verb} {explained:.1%} of the model"


def describe_rest(blend: Blend) -> str:
    """Return in words what is left of a model that its parents do not explain."""
    before = "that" if BlendPlace.PIECES in blend.places and BlendPlace.BLEND not in blend.places else "the blend"
    if blend.remainder is None:
        return f"what was trained after {before} does not show beside its quantization"
    if blend.pure:
        return f"nothing was trained after {before}"
    return f"what is left is {blend.remainder:.2g} times what rounding leaves, as after further training"


def _whole(blended: Combination) -> Iterator[str]:
    """Yield what concerns all parents, with those that are not named."""
    undeclared, total = blended.undeclared, describe_sum(blended)
    if not undeclared:
        showing = any(how in (BlendPlace.BLEND, BlendPlace.PIECES) for how in blended.blend.places)
        yield f"{total}; {describe_rest(blended.blend)}" if showing else total
        return
    by_card = [
        printable(name, 200) for name, is_named in zip(blended.parents, blended.is_declared, strict=True) if is_named
    ]
    who = "the model" if blended.by_model else "the check"
    names = f"{who} names {_list_words(by_card)} alone" if by_card else f"{who} names none of them"
    parents = "shows as an undeclared parent" if len(undeclared) == 1 else "show as undeclared parents"
    yield (
        f"{_list_words([printable(name, 200) for name in undeclared])} {parents}: {total}; "
        f"{describe_rest(blended.blend)}; {names}"
    )


def _each(blended: Combination) -> Iterator[str]:
    """Yield what the matrices show of the parents that are not named, or of all but the first where all are."""
    parents = [*zip(blended.parents, blended.blend.places, blended.is_declared, strict=True)]
    told = [one for one in parents if not one[2]] or parents[1:]
    for how, words in sentences("blend").items():
        some = (
            name for name, made, is_named in told if made.value == how and not (is_named and made is BlendPlace.BLEND)
        )
        if names := [printable(name, 200) for name in some]:
            yield words.format(_list_words(names))
    for name, share in zip(blended.parents, blended.blend.shares.parents, strict=True):
        if isinstance(share, str):
            yield f"what {printable(name, 200)} gave cannot be told: {share}"


def _list_words(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def blend_values(blended: Combination) -> dict[str, Any]:
    """Return what the parents make up of a model, for machines."""
    blend = blended.blend
    parents = zip(blended.parents, blend.shares.parents, blend.places, blended.is_declared, strict=True)
    return {
        "parents": [
            {
                "model": name,
                **_share_values(share),
                "shows": how.value,
                "named": is_named,
                "reason": share if isinstance(share, str) else "",
            }
            for name, share, how, is_named in parents
        ],
        "explained": blend.explained,
        "remainder": blend.remainder,
        "trained_after": None if blend.pure is None else not blend.pure,
        "undeclared": list(blended.undeclared),
    }


def _share_values(share: Share | str) -> dict[str, Any]:
    if isinstance(share, str):
        return {"share": None, "low": None, "high": None, "detected": False}
    return {"share": share.value, "low": share.low, "high": share.high, "detected": share.detected}
