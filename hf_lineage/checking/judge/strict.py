"""Strict: every number of a model held against the base's, as the format of each tensor would have stored that.

Tensors are read one after the other, a large one some rows at a time where its format allows that. So no more than
about two matrices are in memory at once, with the ends of the grids of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checking.relation import Pairing, pair_tensors
from hf_lineage.checking.source import Opened, OpenedModel, opened
from hf_lineage.checkpoint import Checkpoint, Codes, TensorInfo, single
from hf_lineage.errors import OptionError, printable
from hf_lineage.evidence import Verdict
from hf_lineage.evidence.judging import with_strict
from hf_lineage.evidence.strict import AT_ONCE, CASTS, Beyond, Coded, Strict, Tally
from hf_lineage.hub import client

BEFORE = 2.0**-9
"""Relative rounding, to bfloat16, that a number of float32 may have had before."""
UNDONE = 2.0**-24
"""Error that adding 1 to a gain, and taking it off again, leaves in it."""
UNKNOWN = "hf-lineage knows no bound for the rounding of its format"
LONG = frozenset({"F32", "F64"})


def judge_strict(base: OpenedModel | Verdict, candidate: OpenedModel | Verdict, outcome: Verdict) -> Verdict:
    """Return a verdict with the comparison of every number, not verified where one is not the base's.

    Raise OptionError where only a signature is there, CheckpointError where a file cannot be read.
    """
    if isinstance(base, Verdict) or isinstance(candidate, Verdict):
        return outcome
    named = f"{base.name} at commit {base.commit}" if base.commit else base.name
    first, second = (_weights(model) for model in (base, candidate))
    return with_strict(outcome, _compared(named, pair_tensors(first, second)))


def _weights(model: OpenedModel) -> Opened:
    """Return the weights of a model, also where a cached signature was used for the verdict; opened anew if on the Hub.

    What was opened for the verdict may have ended its downloads.
    """
    headers = model.reopen() if model.reopen else None
    if headers is None:
        shown = printable(model.name, 200)
        raise OptionError(f"--strict reads every number, but {shown} is a stored signature; name the model instead")
    return opened(headers.described) if headers.checkpoint.remote else headers


def _compared(named: str, pairing: Pairing) -> Strict:
    stored, beyond, unbound = Counter[str](), list[Beyond](), dict[str, str]()
    total = sum(pairing.candidate.tensors[name].numbers for name, _ in pairing.pairs)
    with client.progress()(total=total, desc="numbers", unit_scale=True, leave=False) as shown:
        ahead = [*pairing.pairs[1:], None]
        for (name, other), following in zip(pairing.pairs, ahead, strict=True):
            if following:
                pairing.candidate.prefetch(following[0])
                pairing.base.prefetch(following[1])
            result = _held(pairing, name, other)
            if isinstance(result, Beyond):
                beyond.append(result)
            elif isinstance(result, str):
                stored[result] += 1
            else:
                unbound[name] = result.reason
            shown.update(pairing.candidate.tensors[name].numbers)
    beyond.sort(key=lambda one: -one.excess)
    of_one = pairing.added, pairing.lacking, pairing.copies
    return Strict(named, stored, tuple(beyond), unbound, *of_one, settings=pairing.settings)


@dataclass(frozen=True)
class _Unbound:
    """Why a tensor cannot be held against the base's number by number."""

    reason: str


def _held(pairing: Pairing, name: str, other: str) -> Beyond | _Unbound | str:
    """Return the storage of one tensor if it is the base's, what is wrong with it, or why that cannot be told."""
    info, of_base = pairing.candidate.tensors[name], pairing.base.tensors[other]
    if info.shape != of_base.shape and not info.numbers == of_base.numbers == 1:
        return Beyond(name, info.numbers, 0, 0.0, why=f"has shape {info.shape}, and {of_base.shape} in the base")
    if info.refusal or of_base.refusal:
        return _as_stored(pairing, name, other)
    bound = isinstance(info.codes, Codes)
    tally = Tally(name, info.numbers)
    first = BEFORE if _dtype(pairing.base, of_base) in LONG else 0.0
    for start, parts, numbers, base in _chunks(pairing, name, other):
        if np.array_equal(numbers, base):
            continue
        tally.equal = False
        if isinstance(info.codes, Codes):
            tally.add_coded(Coded(info, info.codes, parts, single(numbers), single(base), start), first)
        else:
            tally.add_cast(numbers, base, start, UNDONE if info.itemsize else 0.0)
    if tally.equal:
        return ""
    if not bound and _dtype(pairing.candidate, info) not in CASTS:
        return _Unbound(info.codes if isinstance(info.codes, str) and info.codes else UNKNOWN)
    return tally.result() or (info.codes.name if isinstance(info.codes, Codes) else _dtype(pairing.candidate, info))


def _as_stored(pairing: Pairing, name: str, other: str) -> Beyond | _Unbound | str:
    """Return the same of a tensor that is not read as numbers, such as a position table: it has to be stored alike."""
    info, of_base = pairing.candidate.tensors[name], pairing.base.tensors[other]
    if len(info.parts) != 1 or len(of_base.parts) != 1:
        return _Unbound(info.refusal or of_base.refusal)
    (own,), (base,) = pairing.candidate.read_parts(name), pairing.base.read_parts(other)
    alike = own.dtype == base.dtype and np.array_equal(own, base)
    return "" if alike else Beyond(name, info.numbers, 0, 0.0, why="holds other numbers than the base's")


def _dtype(checkpoint: Checkpoint, info: TensorInfo) -> str:
    """Return the format of the first part; metadata hold numbers of float32."""
    return checkpoint.stored[info.parts[0]].dtype if info.parts else "F32"


def _chunks(
    pairing: Pairing, name: str, other: str
) -> Iterator[tuple[int, list[NDArray[Any]], NDArray[Any], NDArray[Any]]]:
    """Yield the numbers of a tensor, from which row on, what they are decoded from, and the base's."""
    candidate, base = pairing.candidate, pairing.base
    info, of_base = candidate.tensors[name], base.tensors[other]
    by_rows = candidate.row_parts(name) and base.row_parts(other)
    height = max(1, AT_ONCE // info.shape[1]) if by_rows else max(1, info.shape[0] if info.shape else 1)
    for start in range(0, info.shape[0] if info.shape else 1, height):
        rows = slice(start, min(start + height, info.shape[0])) if by_rows else None
        parts = candidate.read_parts(name, rows)
        yield start, parts, info.decode(parts), of_base.decode(base.read_parts(other, rows))
