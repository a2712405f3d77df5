"""The condition for each tensor of a layer, among the questions of `architecture.class_tensors`."""

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
    named = dict[tuple[str, int, int], Groups]()
    for place, groups in gathered.items():
        named[place] = {min(saved or other): (saved, other - saved) for saved, other in groups.values()}
    return named, prefixes


def aliases(config: Any, key: str) -> Key:
    """A key and the others that a configuration takes for it."""
    outer, _, last = key.rpartition(".")
    renamed = getattr(functools.reduce(getattr, outer.split("."), config) if outer else config, "attribute_map", {})
    own = renamed.get(last, last)
    spelled = (own, *sorted(other for other, real in renamed.items() if real == own))
    return tuple(f"{outer}.{one}" if outer else one for one in spelled)


def changed_keys(name: str, seen: list[list[Seen]], built: Mapping[int, frozenset[Any]]) -> list[Key]:
    """The keys that decide whether a tensor is built: changing one of them alone changes where it is."""
    config = getattr(transformers, name).config_class()
    changed = [(one, family[1]) for family in seen for one in family[2:] if one.changed[-1] not in DEPTHS]
    found = dict.fromkeys(".".join(one.changed) for one, first in changed if built[id(one)] != built[id(first)])
    return list(dict.fromkeys(aliases(config, key) for key in found))


def entries(factorization: Factorization, name: str, seen: list[list[Seen]]) -> dict[str, list[dict[str, Any]]]:
    by_look = {id(one): layers(factorization, one.found)[0] for family in seen for one in family}
    free = set()
    for found in (one.found for family in seen for one in family[:2]):
        inside = by_layer(factorization, found.groups)
        free |= {older(pattern) for _, pattern, name in inside if found.groups[name] in found.optional}
    stacks = sorted({place[0] for of_look in by_look.values() for place in of_look})
    return {stack: list(of_stack(name, seen, by_look, stack, free)) for stack in stacks}


def of_stack(name: str, seen: Any, by_look: Any, stack: str, free: set[str]) -> Iterable[dict[str, Any]]:
    """The entries of one stack, for which a layer counts twice: as it was asked for, and as transformers writes it."""
    rows, have = list[Row](), list[Groups]()
    for one in (one for family in seen for one in family):
        here = {place: groups for place, groups in by_look[id(one)].items() if place[0] == stack}
        depth = Counter(stage for _, stage, _ in here)
        for (_, stage, number), groups in here.items():
            rows += [Row(config, number, depth[stage]) for config in (one.asked, one.found.config)]
            have += [groups, groups]
    known: dict[tuple[bool, ...], Any] = {}
    config = getattr(transformers, name).config_class()
    default, first = config.to_dict(), seen[0][0].found.config
    for group in sorted({key for groups in have for key in groups}):
        built = tuple(group in groups for groups in have)
        if built not in known:
            where = {
                look: frozenset(place for place, groups in found.items() if group in groups)
                for look, found in by_look.items()
            }
            keys = changed_keys(name, seen, where)
            known[built] = fit(keys, defaults_of(default, keys), rows, built)
            variants = [family[0].found.config for family in seen[1:] if family[0].changed != DEFAULT]
            more = [aliases(config, key) for key in first for other in variants if other.get(key) != first[key]]
            if known[built] == ["maybe"] and more:
                keys = list(dict.fromkeys((*keys, *more)))
                known[built] = fit(keys, defaults_of(default, keys), rows, built)
        yield entry(group, have, known[built], free)


def entry(group: str, have: list[Groups], condition: Any, free: set[str]) -> dict[str, Any]:
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
    starts = {f"{owner}." if owner else "" for owner in owners}

    def is_norm(name: str) -> bool:
        ends = {name.removeprefix(start) for start in starts if name.startswith(start)}
        return name in found.vectors and "norm" in name and any(end.count(".") == 1 for end in ends)

    groups: dict[str, set[str]] = defaultdict(set)
    for name, group in found.groups.items():
        if name not in inside and (group not in found.optional or group in found.tied):
            groups[found.tied.get(group, group)].add(older(name))
    embeddings = {f"{name}{suffix}" for name in as_names(factorization.embedding) for suffix in (".weight", "")}
    return sorted(sorted(names) for names in groups.values() if names & embeddings or any(map(is_norm, names)))


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


def questions(keys: Sequence[Key], defaults: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[Condition]:
    """Every question about some keys, the plainest first."""
    yield ["first"]
    values = {key: [value_of(row.config, key, defaults.get(key[0])) for row in rows] for key in keys}
    for key in keys:
        yield from about(key, defaults.get(key[0]), values[key])
    counts = [key for key in keys if all(type(value) is int for value in values[key])]
    for one, other in itertools.permutations(counts, 2):
        yield ["cycle", *([list(key), defaults.get(key[0])] for key in (one, other))]


def about(key: Key, default: Any, values: list[Any]) -> Iterator[Condition]:
    start = [list(key), default]
    kinds = {type(value) for value in values}
    if kinds & {list, tuple}:
        lists = [value for value in values if isinstance(value, list | tuple)]
        texts = sorted({entry for value in lists for entry in value if isinstance(entry, str)})
        yield from ([word, *start] for word in ("holds", "entry"))
        yield from (["word", *start, [word]] for word in texts)
        yield from (["word", *start, list(pair)] for pair in itertools.combinations(texts, 2))
    yield ["true", *start]
    if None in values:
        yield ["is", *start, [None]]
    if kinds & {int, float} - {bool}:
        yield from (["above", *start, 0], ["above", *start, 1])
        yield from ([word, *start] for word in ("from", "to", "last"))
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


def scalar(keys: Sequence[Key], defaults: Any, rows: Sequence[Row], built: Sequence[bool]) -> Condition | None:
    """The shortest plain condition, all of several questions or any of them; None where there is none."""
    if all(built) or not any(built):
        return ["all"] if all(built) else ["any"]
    asked = [one for question in questions(keys, defaults, rows) for one in (question, ["not", question])]
    answers = [[holds(each, *row) for row in rows] for each in asked]
    every = cover(asked, answers, [bool(one) for one in built])
    opposite = [[None if one is None else not one for one in each] for each in answers]
    some = cover(asked, opposite, [not one for one in built])
    candidates = [[kind, *chosen] for kind, chosen in (("all", every), ("any", some)) if chosen]
    best = min(candidates, key=len, default=None)
    return best[1] if best and len(best) == 2 else best


def cover(asked: list[Condition], answers: list[list[bool | None]], built: list[bool]) -> list[Condition]:
    """Few questions that are all answered by yes where it is built and not all elsewhere; none where there are none."""
    yes = [all(one is True for one, here in zip(each, built, strict=True) if here) for each in answers]
    fitting = [number for number, fits in enumerate(yes) if fits]
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
