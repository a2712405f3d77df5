"""Class tensors: what a class of transformers builds, by `config.json` and the layer, and names in memory.

transformers leaves out tensors that a class does not build, and fills those that a file lacks with random numbers.
"""

import contextlib
import functools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from hf_lineage.architecture.layers import Layer, Shape, find_layers
from hf_lineage.architecture.registry import listing, read_table, registry_root, setting, settle_exchangeable
from hf_lineage.architecture.schema import Factorization, bare_name, base_prefixes
from hf_lineage.errors import CheckpointError, NothingToCompare, printable

TABLES, MEMORY = "tensors", "in_memory"
Config = Mapping[str, Any]
Patterns = dict[str, tuple[str, ...]]  # Names in memory -> published; several of one side are the rows of the other
DECIDES_NOTHING = (
    *(".rotary_emb.inv_freq", ".rotary_embeddings.inv_freq", ".emb.inv_freq", ".embeddings.inv_freq", ".position_ids"),
    *(".masked_bias", ".attn.bias", ".attention.bias", ".attn_mask", ".relative_position_index"),
)  # Ends of names of tables and masks that older versions of transformers stored, where the class has no such tensor
EMBEDDING = re.compile(r"(.*\.)?(?!\w*norm)\w*embed\w*\.weight", re.IGNORECASE)  # Tied, they may have all their names
NUMBER = re.compile(r"(?<![^.])[0-9]+(?![^.])")
COUNTED = re.compile(r"((?<=experts\.)|(?<=expert_)|(?<=norms\.))[0-9]+(?![^.])")  # Their count is in `config.json`

Condition = Sequence[Any]
"""`[question, keys of config.json, default, argument]`, `["all" or "any", ...]`, `["not", condition]`, `["first"]`,
`["listed", keys, condition, condition]`, `["cycle", period, offset]`, or `["maybe"]` where the rule is unknown."""
OF_NUMBERS, OF_LISTS = ("above", "from", "to", "last", "every"), ("word", "entry")
NUMERIC = (int, float)
MOST_EXPERTS = 2**12  # The most experts of one stack, ten times those of the largest models


class _Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tensors of a layer that are built under one condition."""

    names: tuple[str, ...]
    instead: tuple[str, ...] = msgspec.field(name="or", default=())  # One or more of these replace them in other files
    when: Condition = ("all",)
    optional: bool = False


class _Class(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Classes that build the same tensors."""

    classes: tuple[str, ...]
    prefixes: tuple[str, ...]  # The prefixes under which a file may hold the layers
    beside: tuple[tuple[str, ...], ...]  # The embedding and the norms beside the layers, each by all its names on disks
    layers: int  # The number of the table of layers that belongs to these classes
    others: int  # The number of the list of other names that belongs to them


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file of a factorization."""

    classes: tuple[_Class, ...]
    layers: tuple[dict[str, tuple[_Group, ...]], ...]  # By kind of class: name of a stack -> groups of tensors
    others: tuple[tuple[tuple[str, ...], ...], ...]  # By kind, those of one tensor together: bare, `*` for a number


@dataclass(frozen=True)
class ClassTensors:
    """The stored tensors of a model that transformers leaves out, does not know, or lacks."""

    unexpected: frozenset[str] = frozenset()  # Tensors inside the layers that are no part of the model
    unaccounted: tuple[str, ...] = ()  # Stored names, ascending, that are not the class's own: a loader may rename them
    missing: tuple[str, ...] = ()  # Tensors of the layers, or beside them, that the class builds and the file lacks
    unbiased: bool = False  # Whether the class builds a bias that the file does not hold, which is then 0

    @property
    def reservations(self) -> tuple[str, ...]:
        """Reasons why nothing is verified or contradicted."""
        first = printable(self.missing[0], 200) if self.missing else ""
        none = f"{len(self.missing)} tensors that the class has with this config.json are not stored, such as {first}"
        return (f"{none}: transformers fills them with random numbers",) if self.missing else ()


@functools.cache
def _read(folder: str, name: str, kind: Any) -> Any:
    file = f"{folder}/{name}.json"
    return read_table(registry_root(), file, kind) if (registry_root() / file).is_file() else None


def value_of(config: Mapping[str, Any], keys: Sequence[str], default: Any) -> Any:
    """Return the value, null too, of the first of some keys that `config.json` has; else the default of the class."""
    for key in keys:
        outer, _, last = key.rpartition(".")
        within = setting(config, outer) if outer else config
        if isinstance(within, Mapping) and last in within:
            return within[last]
    return default


def holds(condition: Condition, config: Mapping[str, Any], layer: int, depth: int) -> bool | None:
    """Return whether a condition holds for a layer of a stack of `depth` layers; None where that is not known."""
    match condition:
        case ["first"]:
            return layer == 0
        case ["maybe"]:
            return None
        case ["not", inner]:
            met = holds(inner, config, layer, depth)
            return None if met is None else not met
        case ["all" | "any" as kind, *inner]:
            answers, decisive = [holds(each, config, layer, depth) for each in inner], kind == "any"
            return decisive if decisive in answers else None if None in answers else not decisive
        case ["listed", keys, yes, no]:
            return holds(yes if isinstance(value_of(config, keys, None), list) else no, config, layer, depth)
        case ["cycle", *both]:
            period, offset = (value_of(config, *each) for each in both)
            known = type(period) in NUMERIC and type(offset) in NUMERIC and period >= 1
            return (layer - offset) % period == 0 if known else None
        case [kind, keys, default, *argument]:
            return _answer(kind, value_of(config, keys, default), argument[0] if argument else None, layer, depth)
    raise ValueError(f"{condition} is no condition")


def _answer(kind: str, value: Any, argument: Any, layer: int, depth: int) -> bool | None:
    """Return the answer to a question about a value, a layer and the depth; None where the value does not fit it."""
    fits = type(value) in NUMERIC if kind in OF_NUMBERS else kind != "holds" or isinstance(value, list | None)
    if not fits or (kind in OF_LISTS and not (isinstance(value, list) and value)):
        return None
    answers: dict[str, Callable[[], Any]] = {
        "true": lambda: value,
        "is": lambda: value in argument,
        "above": lambda: value > argument,
        "from": lambda: layer >= value,
        "to": lambda: layer <= (value if value >= 0 else depth + value),
        "last": lambda: layer >= depth - value,
        "every": lambda: value >= 1 and (layer + argument) % value == 0,
        "word": lambda: value[layer % len(value)] in argument,
        "entry": lambda: value[layer % len(value)],
        "holds": lambda: layer in (value or ()),
    }
    return bool(answers[kind]())


def patterns_in_memory(architecture: str, factorization: Factorization) -> Patterns:
    """Return the patterns of names in memory that a class publishes under other names; empty if there are none."""
    kinds: dict[str, Patterns] = _read(MEMORY, factorization.name, dict[str, Patterns]) or {}
    return next((patterns for classes, patterns in kinds.items() if architecture in classes.split()), {})


def match_class_tensors(
    architecture: str, factorization: Factorization, shapes: Mapping[str, Shape], config: Config
) -> ClassTensors:
    """Return what transformers leaves out, does not know, or lacks; NothingToCompare if it loads no layer at all."""
    listed = any(factorization in (one, settle_exchangeable(config, one)) for one in listing(architecture))
    table: _Table | None = _read(TABLES, factorization.name, _Table) if listed else None
    row = next((row for row in table.classes if architecture in row.classes), None) if table else None
    if table is None or row is None:
        return ClassTensors()
    layers = find_layers(factorization, shapes)
    loaded = [layer for layer in layers if layer.prefix in map(layer.fill_numbers, row.prefixes)]
    if not loaded:
        where = f"the layers stand under {printable(layers[0].prefix, 200)}, where {architecture} has none"
        raise NothingToCompare(f"{where}: transformers fills all of them with random numbers")
    outside = {name for layer in layers if layer not in loaded for name in layer.shapes}
    stored = {older(name) for name in shapes}
    missing, unbiased = [names[0] for names in row.beside if stored.isdisjoint(names)], False
    depths = Counter(layer.stack for layer in layers)
    for layer in loaded:
        left, absent = _unlike(table.layers[row.layers].get(layer.stack.name, ()), layer, depths[layer.stack], config)
        outside |= left
        # A missing bias is not random: transformers sets it to 0.
        missing += [f"{layer.prefix}.{name}" for name in absent if not name.endswith("bias")]
        unbiased = unbiased or any(name.endswith("bias") for name in absent)
    others = shapes.keys() - {name for layer in layers for name in layer.shapes}
    tied = {name for names in row.beside if EMBEDDING.fullmatch(names[0]) for name in names}
    meanings = {name: names[0] for names in table.others[row.others] for name in names}
    unknown = set(_unknown(factorization, shapes, others, meanings)) - tied
    unaccounted = sorted(unknown | {name for name in outside if not f".{name}".endswith(DECIDES_NOTHING)})
    return ClassTensors(frozenset(outside), tuple(unaccounted), tuple(missing), unbiased)


def _unlike(groups: Iterable[_Group], layer: Layer, depth: int, config: Config) -> tuple[set[str], list[str]]:
    """Return the tensors of a layer that the class does not build, and names of those that it builds and are absent."""
    answered = [(group, holds(group.when, config, layer.number, depth)) for group in groups]
    stored = {name: older(relative(layer, name)) for name in layer.shapes}
    here = set(stored.values())
    built = {name for group, met in answered if met is not False for name in (*group.names, *group.instead)}
    built -= {name for group, _ in answered if not here.isdisjoint(group.names) for name in group.instead}
    needed = (group for group, met in answered if met and not group.optional and here.isdisjoint(group.instead))
    absent = [name for group in needed for name in group.names if name not in here]
    return {name for name, pattern in stored.items() if pattern not in built}, absent


def _unknown(
    factorization: Factorization, stored: Iterable[str], others: Collection[str], meanings: Mapping[str, str]
) -> Iterator[str]:
    """Yield names beside the layers that the class does not know, and those of one tensor: a loader takes one."""
    tensors, starts = defaultdict[tuple[str, ...], list[str]](list), base_prefixes(factorization)
    for name in stored:
        bare = bare_name(older(name), starts)
        meaning = meanings.get(numberless(bare)) if name in others else bare
        if meaning:
            tensors[meaning, *NUMBER.findall(bare)].append(name)
        elif not f".{name}".endswith(DECIDES_NOTHING):
            yield name
    yield from (name for names in tensors.values() for name in names if len(names) > 1)


def exact_classes(factorization: Factorization, shapes: Mapping[str, Shape], config: Config) -> tuple[str, ...]:
    """Return the classes of a factorization that build just these tensors in their layers, no more and no fewer."""
    table: _Table | None = _read(TABLES, factorization.name, _Table)
    exact: list[str] = []
    for row in table.classes if table else ():
        with contextlib.suppress(NothingToCompare):
            built = match_class_tensors(row.classes[0], factorization, shapes, config)
            exact += () if built.unexpected or built.missing or built.unbiased else row.classes
    return tuple(exact)


def relative(layer: Layer, name: str) -> str:
    """Return the pattern of a tensor's name within its layer, with `*` for the numbers of experts and of heads."""
    start = f"{layer.prefix}."
    if name.startswith(start):
        inside = name.removeprefix(start)
    else:
        inside = re.sub(rf"(?<![^.]){layer.number}(?![^.])", "{layer}", name.removeprefix(layer.outer_prefix), count=1)
    return COUNTED.sub("*", inside)


def numberless(name: str) -> str:
    """Return a name with `*` for its numbers."""
    return NUMBER.sub("*", name)


def older(name: str) -> str:
    """Return the name that transformers gives a tensor with a name of older files, whatever the class."""
    return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name))


class Place(NamedTuple):
    """The place of a published tensor in memory: all of some tensors, one below the other, or rows of one."""

    names: tuple[str, ...]
    rows: slice | None
    expert: int | None  # The number of the expert in a stack that has these rows


def places(patterns: Patterns, shapes: Mapping[str, Shape]) -> dict[str, Place]:
    """Return the place of each published tensor; none for one under both names, CheckpointError for misfit shapes."""
    by_first, placed = {names.split()[0]: (names.split(), of) for names, of in patterns.items()}, dict[str, Place]()
    present = {*shapes, *(COUNTED.sub("*", name) for name in shapes)}
    for name, shape in shapes.items():
        numbers = (*NUMBER.findall(name), "*")
        of_name = by_first.get(numberless(name), ((), ()))
        sources, published = (tuple(one.replace("*", "{}").format(*numbers) for one in names) for names in of_name)
        if not sources or not shapes.keys() >= {*sources} or not present.isdisjoint(published):
            continue
        stacked, parts = "*" in published[0], len(published)
        if not stacked and parts + len(sources) == 2:
            placed[published[0]] = Place(sources, None, None)
            continue
        alike = len({(len(shapes[one]), *shapes[one][1:]) for one in sources}) == 1
        whole = len(shape) > stacked and 0 not in shape and not shape[stacked] % parts
        if not (alike and whole and shape[0] ** stacked <= MOST_EXPERTS):
            misfit = f"{printable(name, 200)} has shape {shape}, which does not fit the published"
            others = f"{' and '.join(published)}: the weights are not those of the class that config.json names"
            raise CheckpointError(f"{misfit} {others}")
        height = shape[stacked] // parts
        for expert in range(shape[0]) if stacked else (None,):
            for start, one in zip(range(0, shape[stacked], height), published, strict=True):
                rows = None if sources[1:] else slice(start, start + height)
                placed[one.replace("*", str(expert))] = Place(sources, rows, expert)
    return placed
