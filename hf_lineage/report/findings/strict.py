"""Every number of a model held against the base's: whether it is that, as its formats store it, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.evidence.derivation import Means
from hf_lineage.evidence.strict import Beyond, Strict
from hf_lineage.report.findings.finding import Finding, Table
from hf_lineage.report.words import wording

COLUMNS = ("Tensor", "Numbers", "Beyond", "Furthest", "At", "Coarse")
SHOWN, MOST, NAMED = 20, 1000, 3
"""Tensors in the table, in the values for machines, and in a sentence."""

FOUND = {Means.PRUNED, Means.REORDERED}
"""Ways in which a model was made that leave no question how its numbers came to differ."""


def describe(_report: Report, row: Row) -> Finding | None:
    """Return how the numbers compare with the base's; None where nobody asked for it."""
    strict = row.verdict.strict
    if strict is None:
        return None
    sentences = tuple(_sentences(strict, row))
    table = Table(
        "Tensors that are not the base's, in steps of their grids", COLUMNS, tuple(_rows(strict.beyond)), (1, 2, 3, 5)
    )
    return Finding(
        "Every number",
        wording.about(row),
        sentences,
        tuple(_details(strict)),
        (table,) if strict.beyond else (),
        values=_values(row, strict, sentences[0]),
        in_verdict=True,
        brief="" if strict.problem and row.verdict.is_related else sentences[0],  # its reason says the same
    )


def _sentences(strict: Strict, row: Row) -> Iterator[str]:
    if strict.problem:
        yield f"its numbers were not compared: {printable(strict.problem, 500)}"
        return
    base, whole = printable(strict.base, 300), f"{strict.right:,} of {strict.tensors:,} tensors"
    if strict.holds:
        yield f"{strict.what} {base} and nothing else: {whole}"
    else:
        yield f"not everything is the base's: {whole} hold the numbers of {base} as their formats store them"
    yield from _beyond(strict, row)
    for reason in dict.fromkeys(strict.unbound.values()):
        names = [name for name, why in strict.unbound.items() if why == reason]
        yield f"{_listed(names)} cannot be told number by number: {printable(reason, 300)}"
    if strict.added:
        yield f"{_listed(strict.added)} {_are(strict.added)} not in the base"
    if strict.lacking:
        yield f"{_listed(strict.lacking)} {_are(strict.lacking)} only in the base"
    if strict.settings:
        yield f"config.json says something else than the base's: {'; '.join(strict.settings[:NAMED])}"


def _beyond(strict: Strict, row: Row) -> Iterator[str]:
    """Yield the number furthest off and, of models that share ancestry, how the difference may have come about."""
    if not strict.beyond:
        return
    first = strict.beyond[0]
    name = printable(first.name, 200)
    if first.why:
        yield f"{name} {first.why}"
    elif first.beyond:
        place = ", ".join(map(str, first.place))
        steps = f"{first.excess:.3g} steps" if math.isfinite(first.excess) else "infinitely many steps"
        yield (
            f"{name} at ({place}) is {steps} further from the base's number than its format leaves, and "
            f"{first.beyond:,} of its {first.numbers:,} numbers are"
        )
    else:
        yield f"in {name} the grids of {first.coarse:,} blocks are coarser than their numbers need"
    if any(one.beyond for one in strict.beyond):
        wide = sum(one.wide for one in strict.beyond)
        made = row.derivation if row.derivation and {*row.derivation.means} & FOUND else None
        guess = "as an edit leaves" if strict.is_edit else "as training or another quantization leaves"
        differ = f"of {len(strict.beyond):,} tensors that differ, {wide:,} do in more than 1 % of their numbers"
        yield differ + f", {made.words if made else guess}" * row.verdict.is_related


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(printable(name, 200) for name in names[:NAMED])
    return f"{shown} and {len(names) - NAMED:,} more" if len(names) > NAMED else shown


def _details(strict: Strict) -> Iterator[str]:
    for how, count in strict.stored.items():
        yield f"{count:,} tensors {f'stored as {how}' if how else 'hold the same numbers'}"
    yield from strict.copies


def _rows(beyond: Sequence[Beyond]) -> Iterator[tuple[str, ...]]:
    for one in beyond[:SHOWN]:
        place = ", ".join(map(str, one.place))
        counts = (f"{one.numbers:,}", f"{one.beyond:,}", f"{one.excess:.3g}")
        yield (printable(one.name, 200), *counts, one.why or place, f"{one.coarse:,}")


def _values(row: Row, strict: Strict, sentence: str) -> Mapping[str, Any]:
    return {
        "holds": strict.holds,
        "verified": row.verdict.is_strict,
        "sentence": sentence,
        "problem": strict.problem or None,
        "base": strict.base,
        "right": strict.right,
        "tensors": strict.tensors,
        "stored": {how or "equal": count for how, count in strict.stored.items()},
        "beyond": list(map(_one, strict.beyond[:MOST])),
        "unbound": dict(strict.unbound),
        "added": list(strict.added),
        "lacking": list(strict.lacking),
        "copies": list(strict.copies),
        "settings": list(strict.settings),
    }


def _one(one: Beyond) -> Mapping[str, Any]:
    return {
        "tensor": one.name,
        "numbers": one.numbers,
        "beyond": one.beyond,
        "excess": one.excess if math.isfinite(one.excess) else None,
        "place": list(one.place),
        "coarse": one.coarse,
        "why": one.why,
    }
