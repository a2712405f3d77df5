"""What a model and its base have in common as the Hub stores them, part by part."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import printable
from hf_lineage.evidence.derivation import Copies, Part, Source
from hf_lineage.report.findings.finding import Finding, Table
from hf_lineage.report.words import wording

COLUMNS = ("Part", "Same as in the base", "Of its bytes")
MOST = 100
"""Parts that a table lists."""
NUMBER = re.compile(r"\d+$")


def describe(_report: Report, row: Row) -> Finding | None:
    """Return what is stored as in the base; None where nothing is known to be."""
    copies = row.verdict.copies
    if copies is None:
        return None
    title = "Stored as in the base, by the Hub's listing"
    table = Table(title, COLUMNS, tuple(_rows(copies.copied))[:MOST], (2,))
    return Finding(title, wording.about(row), (_sentence(row, copies),), tables=(table,), values=_values(copies))


def _sentence(row: Row, copies: Copies) -> str:
    """All of it in one sentence: how much, which layers, and what else."""
    layers = sum(part.is_layer for part in (*copies.copied, *copies.others))
    unlike = any(name != source.part.name for name, source in copies.layers.items())
    moved = f" ({_moved(copies.layers)})" if unlike else ""
    others = [printable(part.name, 100) for part in copies.copied if not part.is_layer]
    shown = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
    what = [
        f"{len(copies.layers)} of {layers} layers{moved}" if copies.layers else "none of the layers",
        *([f"outside the layers {shown}"] if others else []),
    ]
    share = f"{copies.share:.1%} of its bytes are stored as those of {printable(row.claim.base, 200)}"
    return f"{share}, by the Hub's listing of stored chunks: {' and '.join(what)}; what is not listed may be equal too"


def _moved(layers: Mapping[str, Source]) -> str:
    """The numbers of copied layers, as runs of layers that follow each other in both models."""
    pairs = sorted((_number(name), _number(source.part.name)) for name, source in layers.items())
    runs: list[list[tuple[int, int]]] = []
    for pair in pairs:
        if runs and pair == (runs[-1][-1][0] + 1, runs[-1][-1][1] + 1):
            runs[-1].append(pair)
        else:
            runs.append([pair])
    shown = [f"{_range([own for own, _ in run])} from {_range([source for _, source in run])}" for run in runs]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more runs" if len(shown) > 6 else "")


def _range(numbers: Sequence[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"


def _number(name: str) -> int:
    number = NUMBER.search(name)
    return int(number[0]) if number else 0


def _rows(copied: Mapping[Part, Source]) -> Iterator[tuple[str, str, str]]:
    for part, source in sorted(copied.items(), key=lambda one: (not one[0].is_layer, one[0].name)):
        yield printable(part.name, 100), printable(source.part.name, 100), f"{source.share:.1%}"


def _values(copies: Copies) -> dict[str, Any]:
    return {
        "share": copies.share,
        "copied": {
            part.name: {"layer": part.is_layer, "from": source.part.name, "share": source.share}
            for part, source in copies.copied.items()
        },
        "others": [part.name for part in copies.others],
    }
