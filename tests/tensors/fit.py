"""The condition under which a tensor is built, found among the questions that `architecture.class_tensors` knows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hf_lineage.architecture.class_tensors import Condition, holds, value_of
from hf_lineage.architecture.registry import setting

LONG = 4
"""Entries of a list that may have one for each layer."""
MOST = 4
"""Questions of one condition."""
Key = tuple[str, ...]
"""A key of `config.json`, and others that the class takes for it."""


@dataclass(frozen=True)
class Row:
    """One layer of a model that was built."""

    config: Mapping[str, Any]
    layer: int
    depth: int


def questions(keys: Sequence[Key], defaults: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[Condition]:
    """Every question about some keys and its opposite, the plainest first."""
    yield ["first"]
    yield ["not", ["first"]]
    values = {key: [value_of(row.config, key, defaults.get(key[0])) for row in rows] for key in keys}
    for key in keys:
        for asked in about(key, defaults.get(key[0]), values[key]):
            yield from (asked, ["not", asked])
    counts = [key for key in keys if all(type(value) is int for value in values[key])]
    for one, other in itertools.permutations(counts, 2):
        cycle = ["cycle", *([list(key), defaults.get(key[0])] for key in (one, other))]
        yield from (cycle, ["not", cycle])


def about(key: Key, default: Any, values: list[Any]) -> Iterator[Condition]:
    """The questions that fit the values of a key."""
    start = [list(key), default]
    kinds = {type(value) for value in values}
    if kinds & {list, tuple}:
        entries = [entry for value in values if isinstance(value, list | tuple) for entry in value]
        texts = sorted({entry for entry in entries if isinstance(entry, str)})
        yield ["holds", *start]
        yield ["entry", *start]
        yield from (["word", *start, [word]] for word in texts)
        yield from (["word", *start, list(pair)] for pair in itertools.combinations(texts, 2))
    yield ["true", *start]
    if None in values:
        yield ["is", *start, [None]]
    if kinds & {int, float} - {bool}:
        yield ["above", *start, 0]
        yield ["above", *start, 1]
        yield ["from", *start]
        yield ["to", *start]
        yield ["last", *start]
        yield from (["every", *start, told] for told in (0, 1, -1))
    texts = sorted({value for value in values if isinstance(value, str)})
    yield from (["is", *start, [word]] for word in texts)
    yield from (["is", *start, list(pair)] for pair in itertools.combinations(texts, 2))


def fit(keys: Sequence[Key], defaults: Mapping[str, Any], rows: Sequence[Row], built: Sequence[bool]) -> Condition:
    """The shortest condition that says of every row whether the tensor was built; `maybe` where there is none."""
    if found := scalar(keys, defaults, rows, built):
        return found
    for key in keys:
        told = [isinstance(value_of(row.config, key, None), list) for row in rows]
        if not any(told):
            continue
        with_list, without = (
            [(row, here) for row, here, has in zip(rows, built, told, strict=True) if has is wanted]
            for wanted in (True, False)
        )
        listed = tuple(zip(*with_list, strict=True))
        if there := scalar([key], {}, *listed) or scalar(keys, defaults, *listed):
            others = [other for other in keys if other != key]
            rest = fit(others, defaults, *zip(*without, strict=True)) if without else ["maybe"]
            return ["listed", list(key), there, rest]
    return ["maybe"]


def scalar(
    keys: Sequence[Key], defaults: Mapping[str, Any], rows: Sequence[Row], built: Sequence[bool]
) -> Condition | None:
    """The shortest plain condition, all of several questions or any of them; None where there is none."""
    if all(built) or not any(built):
        return ["all"] if all(built) else ["any"]
    asked = list(questions(keys, defaults, rows))
    answers = [[holds(each, row.config, row.layer, row.depth) for row in rows] for each in asked]
    every = cover(asked, answers, [bool(one) for one in built])
    opposite = [[None if one is None else not one for one in each] for each in answers]
    some = cover(asked, opposite, [not one for one in built])
    candidates = [[kind, *chosen] for kind, chosen in (("all", every), ("any", some)) if chosen]
    best = min(candidates, key=len, default=None)
    return best[1] if best and len(best) == 2 else best


def cover(asked: list[Condition], answers: list[list[bool | None]], built: list[bool]) -> list[Condition]:
    """Few questions that are all answered by yes where it is built and not all elsewhere; none where there are none."""
    fitting = [
        number
        for number, each in enumerate(answers)
        if all(one is True for one, here in zip(each, built, strict=True) if here)
    ]
    left = {number for number, here in enumerate(built) if not here}
    chosen: list[Condition] = []
    while left and len(chosen) < MOST:
        gains = {number: {row for row in left if answers[number][row] is False} for number in fitting}
        best = max(fitting, key=lambda number: len(gains[number]), default=None)
        if best is None or not gains[best]:
            return []
        chosen.append(asked[best])
        left -= gains[best]
    return [] if left else chosen


def defaults_of(config: Mapping[str, Any], keys: Sequence[Key]) -> dict[str, Any]:
    """What the class takes for some keys where `config.json` does not say, without lists that follow from the depth."""
    values = {key[0]: setting(config, key[0]) for key in keys}
    lists = {key: list(value) for key, value in values.items() if isinstance(value, list | tuple) and len(value) < LONG}
    return {key: lists.get(key) if isinstance(value, list | tuple | dict) else value for key, value in values.items()}
