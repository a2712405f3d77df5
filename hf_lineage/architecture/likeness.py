"""Likeness: the listed classes that have the tensors of a model whose class the registry does not list.

All names may have one more prefix, and those in layers may be others, where letters and sizes tell their roles. Two
classes with the same tensors need not compute the same, so nothing is verified by such a reading.
"""

import contextlib
import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hf_lineage.architecture import guess, registry
from hf_lineage.architecture.class_tensors import exact_classes, numberless
from hf_lineage.architecture.config_checks import QUANTIZED, known_type, usual_activations
from hf_lineage.architecture.guess import KINDS, LayerGroup, find_groups
from hf_lineage.architecture.layers import BIASES, Shape
from hf_lineage.architecture.layout import Layout, bind
from hf_lineage.architecture.loaded_layers import as_loaded
from hf_lineage.architecture.registry import classes_named, factorizations, settle_exchangeable, slots, unmet
from hf_lineage.architecture.schema import BRANCH_ROLES, Factorization, as_names, as_sets, prefixes
from hf_lineage.errors import Ambiguous, CheckpointError, LineageError, NothingToCompare

OWN_CODE = "loading/own_code.yaml"  # Classes whose code is in repositories, each with the listed class nearest to it
T = TypeVar("T")


def fitting_class(shapes: Mapping[str, Shape], config: Mapping[str, Any]) -> str | None:
    """Return a listed class that reads all matrices and gains or, where no class is named, leaves fewest unread."""
    groups = {group.prefix: group for group in find_groups(shapes)}
    fits: dict[int, list[Factorization]] = {}
    for factorization in factorizations():
        starts = (pattern.replace("{stage}", "0") for pattern in prefixes(factorization))
        own = next((groups[start] for start in starts if start in groups), None)
        if own is None or unmet(config, factorization.requires) or absent_names(factorization, own.tensors):
            continue
        with contextlib.suppress(CheckpointError):
            left = len(unread(bind(factorization, shapes, config), shapes))
            fits.setdefault(left, []).append(factorization)
    classes = classes_named(config)
    nearest = fits.get(0) or (fits[min(fits)][:1] if fits and not classes else [])
    if not nearest:
        return None
    best = max(nearest, key=lambda one: len(one.classes))
    return usual_class(best, best.classes, classes)


def unread(layout: Layout, shapes: Mapping[str, Shape]) -> tuple[str, ...]:
    """Return the matrices and gains of the residual width that no branch reads, without `.weight`, `*` for numbers."""
    claimed = {name for layer_set in layout.everything for name in layer_set.tensors}
    layers = tuple(
        f"{star_numbers(prefix, '{layer}', '{stage}', '{block}')}." for prefix in prefixes(layout.factorization)
    )
    gains = (name for name, shape in shapes.items() if shape == (layout.width,) and name not in claimed)
    inside = (name for name in gains if not name.endswith(BIASES) and star_numbers(name).startswith(layers))
    return tuple(dict.fromkeys(map(star_numbers, (*layout.unclaimed, *inside))))


def star_numbers(name: str, *numbers: str) -> str:
    """Return a name without `.weight`, with `*` for every number and for every text that stands for a number."""
    for number in numbers:
        name = name.replace(number, "0")
    return numberless(name.removesuffix(".weight"))


def absent_names(factorization: Factorization, tensors: Mapping[str, Shape]) -> tuple[str, ...]:
    """Return the names that a factorization asks for and no layer has; of several sets, those of the nearest set."""
    absent: list[str] = []
    for sets in map(factorization.branches.sets, BRANCH_ROLES):
        by_set: list[list[str]] = [[]] if isinstance(sets, tuple) and None in sets else []
        for matrices in as_sets(sets):
            stored = dict.fromkeys((name,) for slot in slots(matrices) for name in slot.tensors)
            norms = (names for names in map(as_names, matrices.norms) if names and None not in names)
            wanted = [[str(name) for name in names] for names in (*stored, *norms)]  # with alternatives
            missing = []
            for names in wanted:  # `bind` checks those beside the layers
                known = any("{layer}" in name or name.replace("{expert}", "0") in tensors for name in names)
                missing += [] if known or not tensors.keys().isdisjoint(names) else [" or ".join(names)]
            by_set.append(missing)
        nearest = min(by_set, key=len)
        absent += nearest
    return tuple(dict.fromkeys(absent))


def usual_class(factorization: Factorization, classes: Sequence[str], listed_names: Sequence[str]) -> str:
    """Return the class that a factorization is called after, with the head of a class that is named, if it can be."""
    heads = {name.partition("For")[2] for name in listed_names if "For" in name or name.endswith("Model")}
    start = factorization.name.partition("_")[0]

    def rank(name: str) -> tuple[bool, bool, bool, int]:
        head = name.partition("For")[2]
        return name.lower().startswith(start), head in heads, head == "CausalLM", -len(name)

    return max(classes, key=rank)


@dataclass(frozen=True)
class Within:
    """The prefix of the names, the settings and the renaming by which a part of a model is read as its class."""

    prefixes: tuple[str, ...] = ("",)  # Possible prefixes of its tensors, one on disk; all others are other parts
    settings: str = ""  # The key of `config.json` that holds its settings; empty where they are at the top
    layers: str = ""  # Prefix of its layers as stored, with `{layer}`, where names in them are not the class's
    renamed: Mapping[str, str] = field(default_factory=dict)  # Stored name in a layer -> the name in the class

    def place(self, stored: Collection[str]) -> str:
        """Return the prefix of its tensors' names on disk; NothingToCompare unless they stand in just one place."""
        places = [prefix for prefix in self.prefixes if any(name.startswith(prefix) for name in stored)]
        if len(places) != 1:
            where = f"under {' and '.join(places)}: loaders disagree on which is the model" if places else "nowhere"
            error = Ambiguous if places else NothingToCompare
            raise error(f"tensors that may stand under {' or '.join(self.prefixes)} stand {where}")
        return places[0]

    def tensors(self, stored: Mapping[str, T]) -> dict[str, T]:
        """Return its tensors by the names of its class; NothingToCompare unless they stand in just one place."""
        place = self.place(stored)
        here = {name: each for name, each in stored.items() if name.startswith(place)}
        return {self._rename(name).removeprefix(place): each for name, each in here.items()}

    def config(self, whole: Mapping[str, Any]) -> dict[str, Any]:
        """Return its settings, with those of the storage."""
        own = registry.setting(whole, self.settings) if self.settings else whole
        return {key: whole[key] for key in QUANTIZED if key in whole} | dict(own if isinstance(own, Mapping) else {})

    def _rename(self, name: str) -> str:
        start = re.escape(self.layers).replace(r"\{layer\}", r"\d{1,6}")
        layer = re.match(rf"{start}\.", name) if self.renamed else None
        inside = name[layer.end() :] if layer else ""
        old = next((old for old in self.renamed if inside == old or inside.startswith(f"{old}.")), None)
        return name if layer is None or old is None else f"{layer[0]}{self.renamed[old]}{inside[len(old) :]}"


@dataclass(frozen=True)
class Like:
    """A listed class that a model can be read as, and the place of that model in the repository."""

    classes: tuple[str, ...]  # Of several that have the same tensors one is chosen
    factorization: Factorization
    within: Within
    settings: Mapping[str, Any]


def find_likes(shapes: Mapping[str, Shape], config: Mapping[str, Any], wanted: str | None = None) -> tuple[Like, ...]:
    """Return the listed classes with a model's tensors, one for each way to compute; a language model comes first."""
    classes = classes_named(config)
    published = registry.registry_table(OWN_CODE, dict[str, str])
    target = wanted or next((published[name] for name in classes if name in published), None)
    of_group = functools.partial(_of_group, shapes=shapes, config=config, target=target)
    groups = find_groups(shapes)
    by_group = [[*of_group(one, as_guessed=False)] or [*of_group(one, as_guessed=True)] for one in groups]
    languages = [[like for like in likes if like.factorization.embedding] for likes in by_group]
    likes = next((likes for likes in (*languages, *by_group[:1]) if likes), list[Like]())
    # Those with a class of the model's type count if there are any, else those with its usual activation.
    typed = [it for it in likes if {*known_type(it.settings.get("model_type")).classes} & {*it.factorization.classes}]
    usual = [it for it in likes if it.settings.get("hidden_act") in usual_activations(it.classes)]
    # Those that compute the same, whatever their settings, are one way, the plainest factorization first.
    ways: dict[str, Like] = {}
    for like in sorted(
        typed or usual or likes, key=lambda it: (len(it.factorization.requires), -len(it.factorization.classes))
    ):
        one = like.factorization
        about = (one.normalization, one.gain, one.stored, one.exchangeable)
        sets = [as_sets(one.branches.sets(kind)) for kind in KINDS]
        ways.setdefault(repr((like.within.prefixes, about, sets)), like)
    chosen = []
    for like in ways.values():  # under one class: that of its own settings, else the usual one
        own = [name for name in classes_named(like.settings) if name in like.classes]
        own = own or [name for name in known_type(like.settings.get("model_type")).classes if name in like.classes]
        name = target or usual_class(like.factorization, own or like.classes, classes)
        chosen.append(replace(like, classes=(name,)))
    return tuple(chosen)


def _of_group(
    group: LayerGroup, shapes: Mapping[str, Shape], config: Mapping[str, Any], target: str | None, as_guessed: bool
) -> Iterator[Like]:
    """Yield every factorization with the tensors of a stack; `as_guessed` under other names, by their roles."""
    guesses = (guess.branches(group), guess.norms(group, factorizations())) if as_guessed else None
    for factorization in factorizations():
        ends = [pattern for pattern in prefixes(factorization) if f".{group.prefix}".endswith(f".{pattern}")]
        if not ends or (target and target not in factorization.classes):
            continue
        renamed = _match_names(factorization, *guesses) if guesses else {}
        if not renamed and (as_guessed or absent_names(factorization, group.tensors)):
            continue
        prefix = group.prefix.removesuffix(max(ends, key=len))
        for key in ("", *(key for key, value in config.items() if isinstance(value, Mapping))):
            within = Within((prefix,), key, group.prefix, renamed)
            settings = within.config(config)
            if classes := _classes(factorization, within.tensors(shapes), settings, target):
                yield Like(classes, settle_exchangeable(settings, factorization), within, settings)
                break


def _classes(
    factorization: Factorization, shapes: Mapping[str, Shape], config: Mapping[str, Any], target: str | None
) -> tuple[str, ...]:
    """Return the listed classes whose tensors these are, under settings that fit them; none if there are none."""
    if unmet(config, factorization.requires):
        return ()
    with contextlib.suppress(LineageError):
        layout = bind(factorization, as_loaded(factorization, shapes, config).shapes, config)
        sizes = [config[key] for key in ("hidden_size", "d_model", "n_embd", "dim") if isinstance(config.get(key), int)]
        if not layout.unclaimed and (not sizes or layout.width in sizes):
            return (target,) if target else exact_classes(factorization, shapes, config)
    return ()


def _match_names(
    factorization: Factorization, sets: Mapping[str, Sequence[Any]], norms: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, str]:
    """Return name in a layer -> the factorization's name of the tensor that it seems to be; empty where unclear."""
    renamed: dict[str, str] = {}
    for kind in KINDS:
        listed, guessed = as_sets(factorization.branches.sets(kind)), sets.get(kind, ())
        if len(listed) != 1 or len(guessed) != 1 or guessed[0] is None or listed[0].packed or listed[0].interleaved:
            return {}
        stored = {**norms.get(kind, {}), **guessed[0]}
        for role in ("norm", *BRANCH_ROLES[kind]):
            wanted = as_names(getattr(listed[0], role) or ())
            if bool(wanted) != isinstance(stored.get(role), str):
                return {}
            renamed |= {stored[role]: str(wanted[0])} if wanted and stored[role] not in wanted else {}
    return renamed if len(set(renamed.values())) == len(renamed) else {}
