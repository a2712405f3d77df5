"""Placement: the matrices of a base that a LoRA adapter belongs to, listed by the registry or paired by shape.

Modules are those of `check_target_module_exists` and `target_parameters` in peft 0.19; a pattern in place of a list of
names is not run, for it may take for ever: it is taken to mean every module. Where several numbers may count the heads
of a layer, rows are permuted within the largest part that divides a head for all of them: fewer permutations are exact.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from hf_lineage.architecture.layers import Heads, LayerSet
from hf_lineage.architecture.layout import Layout, is_transposed
from hf_lineage.architecture.registry import Slot, setting
from hf_lineage.architecture.schema import Lora as LoraNames
from hf_lineage.architecture.schema import as_names, prefixes
from hf_lineage.lora.adapter import Factors, Lora

if TYPE_CHECKING:
    from hf_lineage.source.headers import Headers

LAYER = re.compile(r".*?\.[^.]*\.(?P<number>\d{1,9})\.")  # the first number in a module's name is that of its layer
BASES = (None, "FEATURE_EXTRACTION")  # the tasks of an adapter with which its base is loaded without a head
Names = frozenset[str]
LAYERED = re.compile(r"(?P<before>(?:[^.]+\.)*?)(?P<layer>[^.]+\.\d+\..+)")  # the name of a module in a layer
UNITS, DIMENSIONS, COORDINATES = "hidden units", "dimensions of value heads", "residual coordinates"
SCORED, LATENTS = "dimensions of query and key heads", "coordinates of a latent"
LATENT = "latent"  # the role of a matrix that computes the latent which others read
ROWS = {"up": UNITS, "gate": UNITS, "value": DIMENSIONS, "query": SCORED, "key": SCORED, LATENT: LATENTS}
ROWS |= dict.fromkeys(("output", "down"), COORDINATES)  # by role, what the rows of its matrix are, which are permuted
# Role -> the other role of its set, through whose matrix the gradient of a row passes.
NEEDS = {"up": "down", "gate": "down", "value": "output", "query": "key", "key": "query"}
READERS = {"mlp": ("up", "gate"), "attention": ("query", "key", "value")}
# A module of stacked experts; peft wraps it once more for every other of its tensors that it adapts.
EXPERTS = re.compile(r"(?P<layer>.+\.\d+\.).*\bexperts(?:\.base_layer)*")
IN_TURN = ("gate", "up")  # roles in the order in which transformers stacks in memory what a checkpoint stores by expert
MOST_EXPERTS = 8  # experts of a stack that are tested, the first ones


def find_idle(config: Mapping[str, Any], modules: Collection[str]) -> Names:
    """Return those of some modules, by their names, whose factors peft passes over under an adapter's configuration."""
    keys = ("exclude_modules", "modules_to_save", "target_parameters")
    excluded, saved, parameters = (_names(config.get(key)) or Names() for key in keys)
    named = config.get("target_modules")
    numbers = None if config.get("layers_pattern") else config.get("layers_to_transform")
    listed = numbers if isinstance(numbers, list) else [numbers]
    layers = None if numbers in (None, []) else {one for one in listed if isinstance(one, int)}
    # None where all modules are adapted, or where a pattern chooses them.
    adapted = Names() if named is None and parameters else _names(named)
    bare = Names(name for name in parameters if "." not in name)  # adapted wherever they are
    holders = Names(name.rpartition(".")[0] for name in parameters - bare)

    def is_adapted(module: str) -> bool:
        # Parameters of a module may be adapted, and its name does not tell which it holds. peft adds `.base_layer` to a
        # name for every further one.
        words = module.replace(".base_layer", "").split(".")
        if "weight" in bare or (words[-1] == "experts" and bare) or _ends(words) & holders:
            return True
        words = module.split(".")
        within = {".".join(words[start:stop]) for start, stop in combinations(range(len(words) + 1), 2)}
        ends = _ends(words)
        if ends & excluded or within & saved:
            return False
        if adapted is None or module in adapted:
            return True
        layer = LAYER.match(module)
        here = layers is None or (layer is not None and int(layer["number"]) in layers)
        return here and bool(ends & adapted)

    shallow = [name for name in modules if name.count(".") < 32]  # no name of a module has more words
    return Names(modules) - {name for name in shallow if is_adapted(name)}


def _ends(words: Sequence[str]) -> set[str]:
    return {".".join(words[start:]) for start in range(len(words))}  # the name, and ends from later words


def _names(listed: Any) -> Names | None:
    return Names(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else None


class ModuleNames:
    """The names of a model's tensors, in which modules are looked up."""

    def __init__(self, tensors: Collection[str]) -> None:
        self._exact = frozenset(tensors)
        self._rest: dict[str, list[str]] = defaultdict(list)
        self._parts: dict[Hashable, list[str]] = defaultdict(list)
        self.flattened: dict[str, list[str]] = defaultdict(list)  # by names in which every point is an underscore
        for name in tensors:
            self._rest[name.partition(".")[2]].append(name)
            if name.endswith(".weight"):
                self._parts[_parts(name.removesuffix(".weight"))].append(name)
                self.flattened[flat(name.removesuffix(".weight"))].append(name)

    def tensor(self, module: str) -> str | None:
        """Return the tensor of a module, with the prefix of the class or without; None if there is not exactly one."""
        # Words before the layers may be in another order: `language_model.model` is loaded as `model.language_model`.
        inner = module.partition(".")[2]
        exact = [name for name in (f"{module}.weight", f"{inner}.weight") if name in self._exact]
        matches = exact[:1] or self._rest.get(f"{module}.weight", []) or self._parts.get(_parts(module), [])
        return matches[0] if len(matches) == 1 else None


def flat(name: str) -> str:
    """Return a name with underscores in place of points."""
    return name.replace(".", "_")


def _parts(name: str) -> Hashable:
    """Return the words before the layers in a name, without `model`, and the rest; None for a name in no layer."""
    layered = LAYERED.fullmatch(name)
    return layered and (frozenset(layered["before"].split(".")) - {"model", ""}, layered["layer"])


def list_pairs(base: Headers) -> Iterator[tuple[int, LayerSet]]:
    """Yield the pairs that are in the layers of a base, each with the number of its layer."""
    lora, tensors, numbers = base.layout.factorization.lora, base.checkpoint.tensors, dict[str, set[int]]()
    pairs = [("value", "output", *names) for names in lora.values.items()]
    pairs += [("up", "down", *names) for names in lora.units.items()]
    for layer, layer_set in _sets(base.layout) if pairs else ():
        for words in (slot.tensor.split(".") for slot in layer_set.slots.values()):
            for end in range(1, len(words)):
                numbers.setdefault(".".join(words[:end]), set()).add(layer)
    # Every beginning of the names of a layer's tensors that no other layer's names have.
    layers = {prefix: min(several) for prefix, several in numbers.items() if len(several) == 1}
    for (role, writer_role, reader, writer), name in itertools.product(pairs, tensors):
        prefix = name.removesuffix(f".{reader}.weight")
        other = f"{prefix}.{writer}.weight"
        if prefix == name or prefix not in layers or other not in tensors:
            continue
        read, written = tensors[name].shape, tensors[other].shape
        if not len(read) == len(written) == 2 or read[0] != written[1]:
            continue
        size = _part_of_heads(base, lora.value_heads, read[0]) if role == "value" else 1
        heads = Heads(read[0] // size, size)
        if role == "up" or size > 1:
            slots = {one: Slot(tensor, (one,), one) for one, tensor in ((role, name), (writer_role, other))}
            own = {role: heads} if role == "up" else {role: heads, "query": heads}
            yield layers[prefix], LayerSet(slots, None, None, None, heads=own, width=written[0])


def _part_of_heads(base: Headers, key: str, rows: int) -> int:
    """Return the largest number of rows that divides a head, whatever the number of heads; 1 if that is not known."""
    counted = setting(base.model_config.config, key)
    counts = counted if isinstance(counted, list) else [counted]  # of each block; no model has more than 64
    if len(counts) > 64 or any(type(count) is not int or count < 1 for count in counts):
        return 1
    return math.gcd(*(rows // count for count in counts if rows % count == 0)) or 1


@dataclass(frozen=True)
class Place:
    """One adapted matrix: the module of the adapter, and where the base holds it."""

    module: str
    layer: int
    layer_set: LayerSet
    slot: Slot
    role: str
    expert: int | None = None  # number of the expert in a stack, each of which has a share of the rank; else None
    latent: int = 0  # if the matrix makes a latent, the number of its coordinates, which are the first rows


@dataclass(frozen=True)
class Places:
    """The places in a base of the matrices of an adapter."""

    everything: tuple[Place, ...]  # a module that holds several roles is here once for each
    absent: tuple[str, ...]  # modules that no tensor of the base is named like
    unfit: tuple[str, ...]  # a phrase for each matrix whose shape is not that of the base
    ambiguous: tuple[str, ...] = ()  # modules whose flattened name may mean several tensors of the base
    idle: tuple[str, ...] = ()  # modules whose factors peft passes over, not named or nowhere in the base


def find_places(base: Headers, lora: Lora) -> Places:
    """Return where a base holds the matrices that an adapter adapts, by names and shapes alone."""
    names_there = in_memory(base.checkpoint.tensors, base.layout.factorization.lora)
    on_head = lora.config.get("task_type") not in BASES
    names, slots, stacks = ModuleNames(names_there), _slots(base), _stacks(base, names_there, on_head)
    passed_over = find_idle(lora.config, lora.modules) if lora.config else frozenset()
    places, unfit = list[Place](), list[str]()
    absent, ambiguous, idle = list[str](), list[str](), list[str]()
    for module, factors in lora.modules.items():
        layered = None if lora.flattened else LAYERED.fullmatch(module)
        if module in passed_over or (layered and _words(_stack(layered)) not in stacks):
            idle.append(module)
            continue
        names_of = names.flattened.get(module, []) if lora.flattened else filter(None, [names.tensor(module)])
        meant = {names_there[name] for name in names_of}
        if len(meant) != 1:
            stacked = list(_of_experts(base.layout, module, factors)) if lora.stacked else []
            (ambiguous if meant else absent).extend([] if stacked else [module])
            places += stacked
            continue
        (name,) = meant
        here = [replace(place, module=module) for place in slots.get(name, [])]
        shape, mine = base.checkpoint.tensors[name].shape, (factors.rows, factors.columns)
        expected = shape[::-1] if here and is_transposed(base.layout.factorization, here[0].slot) else shape
        # The orientation of a matrix outside the layers is not known.
        if len(shape) == 2 and mine != expected and (here or mine != shape[::-1]):
            unfit.append(f"{module} is {factors.rows} x {factors.columns}, not {' x '.join(map(str, expected))}")
        places += here
    return Places(tuple(places), tuple(absent), tuple(unfit), tuple(ambiguous), tuple(idle))


def _stacks(base: Headers, named: Collection[str], on_head: bool) -> set[tuple[str, ...]]:
    """Return how names of layers may begin, words in any order: as the base's, or as the class's by the registry."""
    lora = base.layout.factorization.lora
    own = {_stack(layered) for name in named if (layered := LAYERED.fullmatch(name))}
    listed = in_memory([prefix.format(layer=0, block=0) for prefix in prefixes(base.layout.factorization)], lora)
    others = {name.rpartition(".")[0] for name in listed}
    if on_head:  # the name of the whole model stands before them: a shorter beginning than the base has is not loaded
        others = {name for name in others if not any(one.endswith(f".{name}") for one in own)}
    return {_words(name) for name in own | others}


def _stack(layered: re.Match[str]) -> str:
    return f"{layered['before']}{layered['layer'].partition('.')[0]}"  # before the number of a layer: `model.layers`


def _words(name: str) -> tuple[str, ...]:
    return tuple(sorted(name.split(".")))


def in_memory(tensors: Collection[str], lora: LoraNames) -> Mapping[str, str]:
    """Return the names of tensors by their names on disk and by those in memory."""
    parts, on_disk = lora.in_memory, {name: name for name in tensors}
    if not parts:
        return on_disk
    longest = sorted(parts, key=len, reverse=True)
    known = re.compile(rf"(?<![^.])(?:{'|'.join(map(re.escape, longest))})(?![^.])")
    return {known.sub(lambda match: parts[match[0]], name): name for name in tensors} | on_disk


def _slots(base: Headers) -> dict[str, list[Place]]:
    """Return for each tensor the places of everything that it holds, not yet with a module."""
    slots: dict[str, list[Place]] = {}
    for layer, layer_set in (*_sets(base.layout), *list_pairs(base)):
        for slot in layer_set.slots.values():
            slots.setdefault(slot.tensor, []).append(Place("", layer, layer_set, slot, slot.role))
            for tensor in slot.latent[:1]:
                across = -2 if is_transposed(base.layout.factorization, slot) else -1
                columns = base.checkpoint.tensors[slot.tensor].shape[across]
                slots.setdefault(tensor, [Place("", layer, layer_set, slot, LATENT, latent=columns)])
    return slots


def _sets(layout: Layout) -> Iterator[tuple[int, LayerSet]]:
    for sets in layout.branches.values():
        yield from ((layer, layer_set) for layer, layer_sets in enumerate(sets) for layer_set in layer_sets)


def _of_experts(layout: Layout, module: str, factors: Factors) -> Iterator[Place]:
    """Yield the experts of a layer whose stacked matrices have this shape in memory: no name says which is adapted."""
    experts, most = EXPERTS.fullmatch(module), min(factors.experts, MOST_EXPERTS)
    for layer, layer_set in _sets(layout) if experts else ():
        down = layer_set.slots.get("down")
        if experts is None or down is None or not re.match(rf"{re.escape(experts['layer'])}.*\bexperts\.", down.tensor):
            continue
        readers = [role for role in IN_TURN if role in layer_set.slots]
        shapes = {(layer_set.width, layer_set.units): ["down"]}
        shapes[len(readers) * layer_set.units, layer_set.width] = readers
        numbers = range(layer_set.stacked[0]) if layer_set.stacked else (layer_set.expert,)
        for role in shapes.get((factors.rows, factors.columns), []):
            slot = layer_set.slots[role]
            yield from (Place(module, layer, layer_set, slot, role, one) for one in numbers if one < most)


def testable(places: Places, base: Headers) -> tuple[Place, ...]:
    """Return the places whose rows may be permuted if the base is independent of the adapter."""

    def is_exchangeable(place: Place) -> bool:
        layer_set, rows = place.layer_set, ROWS.get(place.role)
        if rows is None or (layer_set.stacked and place.expert is None):
            return False
        if rows == COORDINATES:
            is_read = unembedding(base) is not None or any(True for _ in after(base.layout, place))
            return is_read and base.layout.factorization.exchangeable is True
        if rows == SCORED:
            return not is_rotary(base) and not any(layer_set.slots[role].latent for role in ("query", "key"))
        return place.role == LATENT or NEEDS[place.role] in layer_set.slots

    return tuple(filter(is_exchangeable, places.everything))


def flips(place: Place) -> bool:
    """Return whether a row may change its sign with what reads it: not behind an activation, nor that of a gate."""
    return ROWS[place.role] != UNITS or (place.role == "up" and "gate" in place.layer_set.slots)


def is_rotary(base: Headers) -> bool:
    """Return whether queries and keys of a base are turned by their position, or may be."""
    rotary = base.layout.factorization.lora.rotary
    return rotary if isinstance(rotary, bool) else rotary in base.model_config.config


def unembedding(base: Headers) -> str | None:
    """Return the tensor that makes logits of the last stream; None if none is known, or it has another width."""
    tensors = base.checkpoint.tensors
    names = (f"{name}.weight" for name in as_names(base.layout.factorization.lora.unembedding))
    name = next((name for name in names if name in tensors), None)
    return name if name is not None and tensors[name].shape[1:] == (base.layout.width,) else None


def after(layout: Layout, place: Place) -> Iterator[tuple[LayerSet, str]]:
    """Yield the matrices that read what a place writes, of the next branches."""
    following = [("mlp", place.layer)] if place.role == "output" else []
    following += [("attention", place.layer + 1)] if place.layer + 1 < layout.layers else []
    for branch, layer in following:
        sets = layout.branches[branch][layer]
        if len(sets) == 1 and not sets[0].stacked:
            yield from ((sets[0], role) for role in READERS[branch] if role in sets[0].slots)
