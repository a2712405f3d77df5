"""Guess: layers of a header by their numbers, attention by the letters of names, and MLPs by sizes."""

import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hf_lineage.architecture.layers import BIASES, Shape
from hf_lineage.architecture.schema import ATTENTION_ROLES, BRANCH_ROLES, Factorization, as_names, as_sets

MOST_KINDS, MOST = 8, 8  # Kinds of layers, and sets of one branch; real models have two or three, and up to five
_NUMBER = re.compile(r"(?:(?<=\.)|^)\d{1,6}(?=\.|$)")
YamlSet = dict[str, Any]  # A matrix set as a registry file writes it in YAML
KINDS = tuple(BRANCH_ROLES)
KnownSets = Callable[[Mapping[str, Shape], Mapping[str, Shape], int], Iterable[tuple[str, YamlSet, frozenset[str]]]]
"""Kind, set and matrices of familiar names among the free matrices of a layer, the best first."""
_AFFIX = re.compile(r"weight|proj(ection)?|linear|lin|dense|layer|self|att(ention|n)?|to|w|[\d_.]")
_LETTERS = {"query": "q|query|queries", "key": "k|keys?", "value": "v|vals?|values?", "output": "o|out|output|"}
_PACKED = {"qkv": ATTENTION_ROLES[:3], "querykeyvalue": ATTENTION_ROLES[:3], "kv": ("key", "value")}
_HINTS = {"attention": re.compile(r"att|before|input|1$"), "mlp": re.compile(r"mlp|ff|feed|after|2$")}
_NO_INPUT = re.compile(r"(^|[._])([qkv]|query|key|value)(_|norm|$)|out")  # Norms of queries and keys, or on an output


@dataclass(frozen=True)
class LayerGroup:
    """The layers under one prefix."""

    prefix: str  # The prefix with `{layer}`, as a registry file has it
    depth: int
    kinds: tuple[Mapping[str, Shape], ...]  # Name without `.weight`, `{expert}` for a number -> shape as stored

    @functools.cached_property
    def tensors(self) -> dict[str, Shape]:
        """Everything that some layer holds."""
        return {name: shape for kind in reversed(self.kinds) for name, shape in kind.items()}

    @functools.cached_property
    def width(self) -> int:
        """The residual width: the size that most matrices share, of several the one of most vectors; 0 without any."""
        shapes = self.tensors.values()
        vectors = Counter(shape[0] for shape in shapes if len(shape) == 1)
        sizes = Counter(size for shape in shapes if len(shape) in (2, 3) for size in set(shape))
        return max(sizes, key=lambda size: (sizes[size], vectors[size]), default=0)

    @functools.cached_property
    def gains(self) -> list[str]:
        """Vectors of the residual width that are no bias and no expert's own."""
        vectors = (name for name, shape in self.tensors.items() if shape == (self.width,))
        return [name for name in vectors if not name.endswith(BIASES) and "{expert}" not in name]


def find_groups(shapes: Mapping[str, Shape]) -> tuple[LayerGroup, ...]:
    """Return the groups of layers, numbered from 0 without a gap, the one with the most matrices first.

    A prefix with a single number counts as a layer only if no prefix has several.

    >>> shapes = {f"h.{n}.mlp.{k}.{role}.weight": (4, 4) for n in range(2) for k in range(3) for role in ("up", "down")}
    >>> [(group.prefix, group.depth, list(group.tensors)) for group in find_groups(shapes)]
    [('h.{layer}', 2, ['mlp.{expert}.up', 'mlp.{expert}.down'])]
    """
    # No other name fits a registry file.
    plain = {name: shape for name, shape in shapes.items() if re.fullmatch(r"[\w.-]{1,200}", name, re.ASCII)}
    under = _numbered_names(plain)
    gapless = {start for start, numbered in under.items() if len(numbered) == max(numbered) + 1}
    repeated = {start for start in gapless if len(under[start]) > 1} or gapless
    layers: dict[str, dict[int, dict[str, Shape]]] = defaultdict(lambda: defaultdict(dict))
    for name, shape in plain.items():
        if where := next((entry for entry in _numbers(name) if entry[0] in repeated and entry[2]), None):
            layers[where[0]][where[1]][where[2]] = shape

    def matrices(start: str) -> int:
        return sum(len(shape) in (2, 3) for layer in layers[start].values() for shape in layer.values())

    groups = []
    for start in sorted(layers, key=matrices, reverse=True):
        kinds = dict[tuple[tuple[str, Shape], ...], None]()
        for _, layer in sorted(layers[start].items()):
            numbered = _numbered_names(layer).items()
            siblings = {at: [frozenset(one.items()) for one in same.values()] for at, same in numbered}
            alike = {at for at, shapes_of in siblings.items() if len(shapes_of) > 1 and len({*shapes_of}) == 1}
            spelled = {}
            for name, shape in layer.items():  # `{expert}` for numbers under which all siblings have the same shapes
                expert = next((entry for entry in _numbers(name) if entry[0] in alike), None)
                spelled[f"{expert[0]}{{expert}}.{expert[2]}".removesuffix(".") if expert else name] = shape
            kinds[tuple(spelled.items())] = None
        groups.append(LayerGroup(f"{start}{{layer}}", len(layers[start]), tuple(map(dict, [*kinds][:MOST_KINDS]))))
    return tuple(groups)


def _numbers(name: str) -> Iterator[tuple[str, int, str]]:
    """Yield the text before, the value of, and the text after every number in a name, the outermost number first."""
    bare = name.removesuffix(".weight")
    for match in _NUMBER.finditer(bare):
        yield bare[: match.start()], int(match[0]), bare[match.end() + 1 :]


def _numbered_names(tensors: Mapping[str, Shape]) -> Mapping[str, Mapping[int, Mapping[str, Shape]]]:
    """Return text before a number -> the number -> text after it -> shape, for every number of every name."""
    under: dict[str, dict[int, dict[str, Shape]]] = defaultdict(lambda: defaultdict(dict))
    for name, shape in tensors.items():
        for start, number, rest in _numbers(name):
            under[start][number][rest] = shape
    return under


def branches(group: LayerGroup, familiar: KnownSets = lambda *_: ()) -> dict[str, list[YamlSet | None]]:
    """Return the matrix sets that the layers of a group seem to have, by kind; None if some layers have none."""
    guesses: dict[str, list[YamlSet | None]] = {kind: [] for kind in KINDS}
    for layer in group.kinds:
        for kind, sets in _of_layer(layer, familiar, group.width).items():
            guesses[kind] += [yaml_set for yaml_set in sets or [None] if yaml_set not in guesses[kind]]
    return {kind: sorted(sets, key=lambda one: one is None)[:MOST] for kind, sets in guesses.items() if any(sets)}


def norms(group: LayerGroup, registry: Iterable[Factorization]) -> dict[str, YamlSet]:
    """Return the norms of each kind of branch: of the registry file that covers most gains, or by the gains' names."""
    assignments = Counter(filter(None, (_assignment(factorization, group) for factorization in registry)))
    best = max(assignments, key=lambda one: (len({name for *_, name in one}), assignments[one]), default=frozenset())
    plausible = [name for name in group.gains if not _NO_INPUT.search(name)]
    hinted = {kind: next((name for name in plausible if hint.search(name)), None) for kind, hint in _HINTS.items()}
    hinted = dict.fromkeys(_HINTS, plausible[0]) if len(plausible) == 1 else hinted
    if len({name for *_, name in best}) < len(set(filter(None, hinted.values()))):
        return {kind: {"norm": name} for kind, name in hinted.items() if name is not None}
    everywhere = {norm: all(norm in layer for layer in group.kinds) for *_, norm in best}
    return {
        kind: {role: name if everywhere[name] else [name, None] for of, role, name in sorted(best) if of == kind}
        for kind in KINDS
    }


def _of_layer(layer: Mapping[str, Shape], familiar: KnownSets, width: int) -> dict[str, list[YamlSet | None]]:
    """Return the sets of one layer: every MLP that shares no tensor with a better one, and the best attention."""
    free = {name: shape for name, shape in layer.items() if len(shape) in (2, 3)}
    by_kind: dict[str, list[YamlSet | None]] = {kind: [] for kind in KINDS}
    for kind, yaml_set, names in familiar(free, layer, width):
        if names <= free.keys() and not (kind == "attention" and by_kind["attention"]):
            by_kind[kind].append(yaml_set)
            free = {name: shape for name, shape in free.items() if name not in names}
    free = {name: shape for name, shape in free.items() if width in shape}
    if not by_kind["attention"] and (lettered := _by_letters(free)):
        by_kind["attention"] = [lettered]
        used = (*lettered.values(), *lettered.get("packed", ()))
        free = {name: shape for name, shape in free.items() if name not in used}
    if not by_kind["mlp"] and (sized := _by_sizes(free, layer, width)):
        by_kind["mlp"] = [sized]
    return by_kind


def _siblings(names: Iterable[str], parts: int = 1) -> list[dict[str, str]]:
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
                yaml_set |= {role: name for role, pattern in _LETTERS.items() if re.fullmatch(pattern, bare)}
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
        for hidden, names in sizes.items():
            if len(names) in (2, 3):
                return _reader_and_writer(names, layer, width)
            if len(names) == 1 and len(sizes.get(2 * hidden, ())) == 1:
                return {"packed": {sizes[2 * hidden][0]: ["gate", "up"]}, "down": names[0]}
    return None


def _reader_and_writer(names: Sequence[str], layer: Mapping[str, Shape], width: int) -> YamlSet | None:
    sides = [[name for name in names if (layer[name][-1] == width) is side] for side in (False, True)]
    biased = [name for name in names if layer.get(f"{name}.bias") == (width,)]
    alone = sides[len(sides[0]) > 1]
    if len(alone) != 1:
        return None
    last = [name for name in names if re.search(r"down|out|2$", name)]
    writers = biased or last or alone if len(names) == 2 else alone
    others = [name for name in dict.fromkeys(names) if name != writers[0]]
    readers = sorted(others, key=lambda name: not re.search(r"gate|act|1$", name))  # the first is the gate
    return {"up": readers[-1], "down": writers[0]} | ({"gate": readers[0]} if len(readers) == 2 else {})


def _assignment(factorization: Factorization, group: LayerGroup) -> frozenset[tuple[str, str, str]]:
    """Return kind, role and name of the norms of a registry file; empty if the group lacks one of them."""
    gains = {"norm": group.gains, "output_norm": group.gains, "inner_norm": group.tensors}
    first = ((kind, matrices) for kind in KINDS for matrices in as_sets(factorization.branches.sets(kind))[:1])
    assignment: set[tuple[str, str, str]] = set()
    for (kind, matrices), (role, known) in itertools.product(first, gains.items()):
        wanted: tuple[str | None, ...] = as_names(getattr(matrices, role))
        name = next((name for name in wanted if name in known), None)
        if name is not None:
            assignment.add((kind, role, name))
        elif wanted and None not in wanted:
            return frozenset()
    return frozenset(assignment)
