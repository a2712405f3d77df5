"""Shares that several known parents have in a model together, and which of them nothing of the model names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import Blended
from hf_lineage.errors import printable
from hf_lineage.evidence.derivation import Blend, Made, Share
from hf_lineage.report.findings.finding import Finding
from hf_lineage.report.words import sentences

UNDECLARED, TITLE = "Undeclared parent", "Blend"
MOST_EXPLAINED = 0.999
"""Largest share that is printed as explained."""


def describe(report: Report) -> Finding | None:
    """Return what the known parents of a model make up of it; None where fewer than two are known, or none shows."""
    blended = report.blended
    if blended is None or not any(isinstance(share, Share) for share in blended.blend.shares.parents):
        return None
    undeclared, told_by_claim = blended.undeclared, any(row.parent for row in report.rows)
    sentences = describe_blend(blended) if undeclared or not told_by_claim else ()
    return Finding(
        UNDECLARED if undeclared else TITLE, sentences=sentences, values=blend_values(blended), first=bool(undeclared)
    )


def describe_blend(blended: Blended) -> tuple[str, ...]:
    """Return in sentences what the parents make up of a model, and what shows of each."""
    return (*_whole(blended), *_each(blended))


def describe_sum(blended: Blended) -> str:
    """Return in words what the parents make up of the model.

    It is as `57% (± 0.2) of org/b and 43% (± 0.2) of org/a explain 99.9% of the model`.
    """
    shares = [
        (share, printable(name, 200))
        for name, share in zip(blended.parents, blended.blend.shares.parents, strict=True)
        if isinstance(share, Share)
    ]
    told = [(share, name) for share, name in shares if share.detected] or shares
    parts = [
        f"{share.value:.0%} (± {max(0.1, 50 * (share.high - share.low)):.1f}) of {name}"
        for share, name in sorted(told, key=lambda one: -one[0].value)
    ]
    verb = "explain" if len(parts) > 1 else "explains"
    explained = min(MOST_EXPLAINED, int(1000 * blended.blend.explained) / 1000)
    return f"{_listed(parts)} {verb} {explained:.1%} of the model"


def describe_rest(blend: Blend) -> str:
    """Return in words what is left of a model that its parents do not explain."""
    before = "that" if Made.PIECES in blend.made and Made.BLEND not in blend.made else "the blend"
    if blend.remainder is None:
        return f"what was trained after {before} does not show beside its quantization"
    if blend.pure:
        return f"nothing was trained after {before}"
    return f"what is left is {blend.remainder:.2g} times what rounding leaves, as after further training"


def _whole(blended: Blended) -> Iterator[str]:
    """Yield what concerns all parents, with those that are not named."""
    undeclared, shown = blended.undeclared, describe_sum(blended)
    if not undeclared:
        showing = any(how in (Made.BLEND, Made.PIECES) for how in blended.blend.made)
        yield f"{shown}; {describe_rest(blended.blend)}" if showing else shown
        return
    named = [printable(name, 200) for name, is_named in zip(blended.parents, blended.named, strict=True) if is_named]
    who = "the model" if blended.by_model else "the check"
    names = f"{who} names {_listed(named)} alone" if named else f"{who} names none of them"
    parents = "shows as an undeclared parent" if len(undeclared) == 1 else "show as undeclared parents"
    yield (
        f"{_listed([printable(name, 200) for name in undeclared])} {parents}: {shown}; "
        f"{describe_rest(blended.blend)}; {names}"
    )


def _each(blended: Blended) -> Iterator[str]:
    """Yield what the matrices show of the parents that are not named, or of all but the first where all are."""
    parents = [*zip(blended.parents, blended.blend.made, blended.named, strict=True)]
    told = [one for one in parents if not one[2]] or parents[1:]
    for how, words in sentences("blend").items():
        some = (name for name, made, is_named in told if made.value == how and not (is_named and made is Made.BLEND))
        names = [printable(name, 200) for name in some]
        if names:
            yield words.format(_listed(names))
    for name, share in zip(blended.parents, blended.blend.shares.parents, strict=True):
        if isinstance(share, str):
            yield f"what {printable(name, 200)} gave cannot be told: {share}"


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def blend_values(blended: Blended) -> dict[str, Any]:
    """Return what the parents make up of a model, for machines."""
    blend = blended.blend
    parents = zip(blended.parents, blend.shares.parents, blend.made, blended.named, strict=True)
    return {
        "parents": [
            {
                "model": name,
                "share": share.value if isinstance(share, Share) else None,
                "low": share.low if isinstance(share, Share) else None,
                "high": share.high if isinstance(share, Share) else None,
                "detected": isinstance(share, Share) and share.detected,
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
