"""Guess: tensors of a layer group that may be a branch, by the names in registry files, then by letters and sizes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from hf_lineage.architecture.layers import Shape
from hf_lineage.architecture.patterns import KINDS, LayerGroup, Pattern, YamlSet, candidates, names, patterns
from hf_lineage.architecture.schema import ATTENTION_ROLES, Factorization, Norms, as_names, as_sets

NORMS = ("norm", "output_norm", "inner_norm")
MOST = 8
"""The most matrix sets of one kind that are guessed; registry files have up to five."""

_AFFIX = re.compile(r"weight|proj(ection)?|linear|lin|dense|layer|self|att(ention|n)?|to|w|[\d_.]")
_LETTERS = {
    "query": re.compile(r"q|query|queries"),
    "key": re.compile(r"k|keys?"),
    "value": re.compile(r"v|vals?|values?"),
    "output": re.compile(r"o|out|output|"),
}
_PACKED = {"qkv": ATTENTION_ROLES[:3], "querykeyvalue": ATTENTION_ROLES[:3], "kv": ("key", "value")}
_FIRST = re.compile(r"gate|act|1$")
"""Names of the reader that is probably the gate."""
_LAST = re.compile(r"down|out|2$")
"""Names of the matrix that is probably the writer."""
_HINTS = {"attention": re.compile(r"att|before|input|1$"), "mlp": re.compile(r"mlp|ff|feed|after|2$")}
_NO_INPUT = re.compile(r"(^|[._])([qkv]|query|key|value)(_|norm|$)|out")
"""Names of norms of queries and keys, or on an output, which give no hint."""


def branches(group: LayerGroup, registry: Iterable[Factorization]) -> dict[str, list[YamlSet | None]]:
    """Return the matrix sets that the layers of a group seem to have, by kind; None if some layers have none."""
    familiar = patterns(registry)
    guesses: dict[str, list[YamlSet | None]] = {kind: [] for kind in KINDS}
    for layer in group.kinds:
        for kind, sets in _of_layer(layer, familiar, group.width).items():
            both: list[YamlSet | None] = [*sets] if sets else [None]
            guesses[kind] += [yaml_set for yaml_set in both if yaml_set not in guesses[kind]]
    return {kind: sorted(sets, key=lambda one: one is None)[:MOST] for kind, sets in guesses.items() if any(sets)}


def norms(group: LayerGroup, registry: Iterable[Factorization]) -> dict[str, YamlSet]:
    """Return the norms of each kind of branch: those of the registry file whose norms cover most gains of the group.

    The names of the gains count instead, where they tell more norms than any file.
    """
    assignments = Counter(assignment for factorization in registry if (assignment := _assignment(factorization, group)))
    hinted = _hinted(group.gains)
    best = max(assignments, key=lambda one: (len({name for *_, name in one}), assignments[one]), default=frozenset())
    if len({name for *_, name in best}) < len({norms["norm"] for norms in hinted.values() if norms["norm"]}):
        return hinted
    everywhere = {norm: all(norm in layer for layer in group.kinds) for *_, norm in best}
    return {
        kind: {role: name if everywhere[name] else [name, None] for of, role, name in sorted(best) if of == kind}
        for kind in KINDS
    }


def _of_layer(layer: Mapping[str, Shape], familiar: Sequence[Pattern], width: int) -> dict[str, list[YamlSet]]:
    """Return the sets of one layer: every MLP that shares no tensor with a better one, and the best attention."""
    free = {name: shape for name, shape in layer.items() if len(shape) in (2, 3)}
    sets_by_kind: dict[str, list[YamlSet]] = {kind: [] for kind in KINDS}
    for candidate in sorted(
        candidates(free, layer, width, familiar), key=lambda candidate: candidate.rank, reverse=True
    ):
        if candidate.names <= free.keys() and not (candidate.kind == "attention" and sets_by_kind["attention"]):
            sets_by_kind[candidate.kind].append(candidate.yaml_set)
            for name in candidate.names:
                del free[name]
    free = {name: shape for name, shape in free.items() if width in shape}
    if not sets_by_kind["attention"]:
        sets_by_kind["attention"] = _taken(free, _by_letters(free))
    if not sets_by_kind["mlp"]:
        sets_by_kind["mlp"] = _taken(free, _by_sizes(free, layer, width))
    return sets_by_kind


def _taken(free: dict[str, Shape], yaml_set: YamlSet | None) -> list[YamlSet]:
    for name in names(yaml_set or {}):
        del free[name]
    return [yaml_set] if yaml_set else []


def _siblings(names: Iterable[str], parts: int = 1) -> list[dict[str, str]]:
    """Return the names under each module by their last parts."""
    modules: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for name in names:
        path = name.split(".")
        modules[tuple(path[:-parts])][".".join(path[-parts:])] = name
    return list(modules.values())


def _by_letters(free: Iterable[str]) -> YamlSet | None:
    """Return the first module whose matrices are named like query, key, value and output, or pack them."""
    for siblings in (*_siblings(free), *_siblings(free, parts=2)):
        yaml_set: YamlSet = {}
        for last, name in siblings.items():
            bare = _AFFIX.sub("", last.lower())
            if bare in _PACKED:
                yaml_set["packed"] = {name: list(_PACKED[bare])}
            else:
                yaml_set |= {role: name for role, pattern in _LETTERS.items() if pattern.fullmatch(bare)}
        roles = [*yaml_set, *(role for packed in yaml_set.get("packed", {}).values() for role in packed)]
        if set(ATTENTION_ROLES) <= set(roles) and len(roles) == len(set(roles)):
            return yaml_set
    return None


def _by_sizes(free: Mapping[str, Shape], layer: Mapping[str, Shape], width: int) -> YamlSet | None:
    """Return the first module in which a size other than the width has one writer and one or two readers, or a pack."""
    for siblings in _siblings(free):
        sizes: dict[int, list[str]] = defaultdict(list)
        for name in siblings.values():
            *_, rows, columns = free[name]
            if (rows == width) != (columns == width):
                sizes[columns if rows == width else rows].append(name)
        for hidden, called in sizes.items():
            if len(called) in (2, 3):
                return _reader_and_writer(called, free, layer, width)
            if len(called) == 1 and len(sizes.get(2 * hidden, ())) == 1:
                return {"packed": {sizes[2 * hidden][0]: ["gate", "up"]}, "down": called[0]}
    return None


def _reader_and_writer(
    called: Sequence[str], free: Mapping[str, Shape], layer: Mapping[str, Shape], width: int
) -> YamlSet | None:
    sides = [[name for name in called if (free[name][-1] == width) is side] for side in (False, True)]
    biased = [name for name in called if layer.get(f"{name}.bias") == (width,)]
    alone = sides[len(sides[0]) > 1]
    if len(alone) != 1:
        return None
    writers = biased or [name for name in called if _LAST.search(name)] or alone if len(called) == 2 else alone
    others = [name for name in dict.fromkeys(called) if name != writers[0]]
    readers = sorted(others, key=lambda name: not _FIRST.search(name))
    return {"up": readers[-1], "down": writers[0]} | ({"gate": readers[0]} if len(readers) == 2 else {})


def _assignment(factorization: Factorization, group: LayerGroup) -> frozenset[tuple[str, str, str]]:
    """Return kind, role and name of the norms of a registry file; empty if the group lacks one of them."""
    assignment: set[tuple[str, str, str]] = set()
    gains = {"norm": group.gains, "output_norm": group.gains, "inner_norm": group.tensors}
    for kind in KINDS:
        for matrices in as_sets(getattr(factorization.branches, kind))[:1]:
            for role in NORMS:
                asked: Norms = getattr(matrices, role)
                wanted = as_names(asked)
                name = next((name for name in wanted if name in gains[role]), None)
                if name is not None:
                    assignment.add((kind, role, name))
                elif wanted and None not in wanted:
                    return frozenset()
    return frozenset(assignment)


def _hinted(gains: Iterable[str]) -> dict[str, YamlSet]:
    plausible = [name for name in gains if not _NO_INPUT.search(name)]
    everything = re.compile("") if len(plausible) == 1 else None
    guesses = {
        kind: next((name for name in plausible if (everything or hint).search(name)), None)
        for kind, hint in _HINTS.items()
    }
    return {kind: {"norm": name} for kind, name in guesses.items() if name is not None}
