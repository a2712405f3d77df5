"""What a class builds, derived from what it was seen to build: for each tensor of a layer the condition.

It is found among the questions that `architecture.class_tensors` knows.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hf_lineage.architecture.class_tensors import Condition, holds, numberless, older, value_of
from hf_lineage.architecture.registry import setting
from hf_lineage.architecture.schema import Factorization, as_names, bare_name, base_prefixes
from tests.conformance.models import transformers
from tests.tensors.explore import DEFAULT, DEPTHS, Seen
from tests.tensors.names import Loaded, by_layer

LONG = 4
"""Entries of a list that may have one for each layer."""
MOST = 4
"""Questions of one condition."""
Key = tuple[str, ...]
"""A key of `config.json`, and others that the class takes for it."""
Groups = dict[str, tuple[set[str], set[str]]]
"""Tensors stored together, by the first of their names: those that transformers saves, and others instead of them."""


class Row(NamedTuple):
    """One layer of a model that was built."""

    config: Mapping[str, Any]
    layer: int
    depth: int


def layers(factorization: Factorization, found: Loaded) -> tuple[dict[tuple[str, int, int], Groups], set[str]]:
    """The groups of every layer, by stack, stage and number, and the prefixes under which files have the layers."""
    gathered: dict[tuple[str, int, int], Groups] = defaultdict(lambda: defaultdict(lambda: (set(), set())))
    prefixes = set()
    for (prefix, stack, stage, number), pattern, name in by_layer(factorization, found.groups):
        gathered[stack, stage, number][found.groups[name]][name not in found.saved].add(older(pattern))
        prefixes.add(prefix)
    named = {
        place: {min(saved or other): (saved, other - saved) for saved, other in groups.values()}
        for place, groups in gathered.items()
    }
    return named, prefixes


def optional(factorization: Factorization, found: Loaded) -> set[str]:
    """The patterns of groups that a file need not have."""
    return {
        older(pattern)
        for _, pattern, name in by_layer(factorization, found.groups)
        if found.groups[name] in found.optional
    }


def aliases(config: Any, key: str) -> Key:
    """A key and the others that a configuration takes for it."""
    outer, _, last = key.rpartition(".")
    renamed = getattr(functools.reduce(getattr, outer.split("."), config) if outer else config, "attribute_map", {})
    own = renamed.get(last, last)
    spelled = (own, *sorted(other for other, real in renamed.items() if real == own))
    return tuple(f"{outer}.{one}" if outer else one for one in spelled)


def decisive(name: str, seen: list[list[Seen]], built: Mapping[int, frozenset[Any]]) -> list[Key]:
    """The keys that decide whether a tensor is built: changing one of them alone changes where it is."""
    config = getattr(transformers, name).config_class()
    changed = [(one, family[1]) for family in seen for one in family[2:] if one.changed[-1] not in DEPTHS]
    found = dict.fromkeys(".".join(one.changed) for one, first in changed if built[id(one)] != built[id(first)])
    return list(dict.fromkeys(aliases(config, key) for key in found))


def varied(name: str, seen: list[list[Seen]]) -> list[Key]:
    """The keys in which the variants of a class differ."""
    config, first = getattr(transformers, name).config_class(), seen[0][0].found.config
    return [
        aliases(config, key)
        for key in first
        for family in seen[1:]
        if family[0].changed != DEFAULT and family[0].found.config.get(key) != first[key]
    ]


def entries(factorization: Factorization, name: str, seen: list[list[Seen]]) -> dict[str, list[dict[str, Any]]]:
    """By stack what its layers have, each group with its condition."""
    looks = [one for family in seen for one in family]
    by_look = {id(one): layers(factorization, one.found)[0] for one in looks}
    free = {pattern for family in seen for one in family[:2] for pattern in optional(factorization, one.found)}
    said: dict[str, list[dict[str, Any]]] = {}
    for stack in sorted({place[0] for found in by_look.values() for place in found}):
        rows, have = rows_of(stack, looks, by_look)
        said[stack] = list(of_stack(name, seen, rows, have, by_look, stack, free))
    return said


def rows_of(stack: str, looks: list[Seen], by_look: Mapping[int, Any]) -> tuple[list[Row], list[Groups]]:
    """Every layer that was seen, twice: by what was asked for, and by what transformers writes."""
    rows, have = [], []
    for one in looks:
        here = {place: groups for place, groups in by_look[id(one)].items() if place[0] == stack}
        depth = Counter(stage for _, stage, _ in here)
        for (_, stage, number), groups in here.items():
            rows += [Row(config, number, depth[stage]) for config in (one.asked, one.found.config)]
            have += [groups, groups]
    return rows, have


def of_stack(
    name: str, seen: Any, rows: list[Row], have: list[Groups], by_look: Any, stack: str, free: set[str]
) -> Iterable[dict[str, Any]]:
    """The entries of one stack, those with the same condition together."""
    known: dict[tuple[bool, ...], Any] = {}
    default = getattr(transformers, name).config_class().to_dict()
    for group in sorted({key for groups in have for key in groups}):
        built = tuple(group in groups for groups in have)
        if built not in known:
            where = {
                id(one): frozenset(place for place, groups in by_look[id(one)].items() if group in groups)
                for family in seen
                for one in family
            }
            keys = decisive(name, seen, where)
            known[built] = fit(keys, defaults_of(default, keys), rows, built)
            if known[built] == ["maybe"] and (more := varied(name, seen)):
                keys = list(dict.fromkeys((*keys, *more)))
                known[built] = fit(keys, defaults_of(default, keys), rows, built)
        yield entry(group, have, known[built], free)


def entry(group: str, have: list[Groups], condition: Any, free: set[str]) -> dict[str, Any]:
    """What is stored of one group."""
    sets = [groups[group] for groups in have if group in groups]
    always = set.intersection(*(saved for saved, _ in sets))
    said: dict[str, Any] = {"names": sorted(always)}
    if other := set.union(*(saved | other for saved, other in sets)) - always:
        said["or"] = sorted(other)
    if condition != ["all"]:
        said["when"] = condition
    if not always or group in free or always & free:
        said["optional"] = True
    return said


def beside(factorization: Factorization, found: Loaded, prefixes: set[str]) -> list[list[str]]:
    """The embedding and the norms beside the layers, each under all names that it may have on disk."""
    inside = {name for _, _, name in by_layer(factorization, found.groups)}
    owners = {prefix.partition("{")[0].rpartition(".")[0].rpartition(".")[0] for prefix in prefixes}
    groups: dict[str, set[str]] = defaultdict(set)
    for name, group in found.groups.items():
        if name not in inside and (group not in found.optional or group in found.tied):
            groups[found.tied.get(group, group)].add(older(name))
    embeddings = {f"{name}{suffix}" for name in as_names(factorization.embedding) for suffix in (".weight", "")}
    return sorted(
        sorted(names)
        for names in groups.values()
        if names & embeddings or any(_norm(owner, name, found) for owner in owners for name in names)
    )


def named_beside(factorization: Factorization, found: Loaded) -> set[tuple[str, ...]]:
    """Return the bare patterns of names beside the layers, those of one tensor together unless a converter joins it."""
    inside = {name for _, _, name in by_layer(factorization, found.groups)}
    of_layers = {found.groups[name] for name in inside}
    groups, starts = defaultdict[tuple[str, int, str], set[str]](set), base_prefixes(factorization)
    for name, group in found.groups.items():
        if name not in inside and (group not in of_layers or name in found.saved):
            pattern = numberless(bare_name(older(name), starts))
            groups[group, pattern.count("*"), name.split(".")[-2:][0]].add(pattern)
    return {tuple(sorted(names)) for names in groups.values()}


def _norm(owner: str, name: str, found: Loaded) -> bool:
    """Whether a tensor is a norm that stands beside the layers."""
    start = f"{owner}." if owner else ""
    return (
        name in found.vectors and name.startswith(start) and "norm" in name and name.removeprefix(start).count(".") == 1
    )


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
    answers = [[holds(each, *row) for row in rows] for each in asked]
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
