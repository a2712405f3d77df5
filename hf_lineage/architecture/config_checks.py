"""Settings of `config.json` that decide which model is loaded, whether layers have an effect, and where parts stand.

diffusers writes the name of its class, and timm an architecture that stands for a class (`loading/timm.json`). Such a
class is listed with the name of its library in front, so no `config.json` of transformers can mean it.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from hf_lineage.architecture.model_types import kinds, parts
from hf_lineage.architecture.registry import lookup, setting
from hf_lineage.architecture.schema import Factorization
from hf_lineage.architecture.tables import registry_table
from hf_lineage.errors import Ambiguous, NothingToCompare, printable

MODEL_TYPES, MULTIPLIERS = "loading/model_types.json", "loading/multipliers.yaml"
WEIGHTS, CODE, GENERATE = "transformers_weights", "_implementation", "custom_generate/generate.py"
QUANTIZED = ("quantization_config", "compression_config")
"""Keys at the top of `config.json` that say how all weights are stored."""


class _Type(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One value of `model_type`."""

    classes: tuple[str, ...]
    depth: int | None = None
    """The number of layers of its models where `config.json` does not state it."""
    activation: str | None = None
    """The value of `hidden_act` where `config.json` does not state it."""


class _Multipliers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    least: float
    most: float
    keys: frozenset[str]
    limits: frozenset[str]
    least_beside: float
    beside: frozenset[str]
    most_epsilon: float
    epsilons: frozenset[str]
    most_sparsity: float
    sparsities: frozenset[str]


_types = functools.partial(registry_table, MODEL_TYPES, dict[str, _Type])
_multipliers = functools.partial(registry_table, MULTIPLIERS, _Multipliers)


def held() -> frozenset[str]:
    """Return the keys of `config.json` whose values must lie in a range."""
    table = _multipliers()
    return table.keys | table.limits | table.beside | table.epsilons | table.sparsities


def classes_of_type(kind: Any) -> tuple[str, ...]:
    """Return the listed classes of a `model_type`; none of one that is not known."""
    return _types()[kind].classes if isinstance(kind, str) and kind in _types() else ()


def default_depth(kind: Any) -> int | None:
    """Return the number of layers of a type's models where `config.json` does not state it; None if unknown."""
    return _types()[kind].depth if isinstance(kind, str) and kind in _types() else None


def usual_activations(classes: Collection[str]) -> tuple[str, ...]:
    """Return the values of `hidden_act` in the types of some classes where `config.json` does not state it."""
    return tuple(kind.activation for kind in _types().values() if kind.activation and set(kind.classes) & set(classes))


def settings_notes(config: Mapping[str, Any], architecture: str, factorization: Factorization) -> tuple[str, ...]:
    """Return sentences about settings that other loaders may follow in another way.

    Raise NothingToCompare where `config.json` leads to another class or file, or takes the layers out of the model.
    """
    _refuse_other_files(config)
    _refuse_dead(config, usual_type(config, architecture))
    return tuple(_of_type(config, architecture, factorization))


def _refuse_other_files(config: Mapping[str, Any]) -> None:
    if config.get("configuration_files"):
        raise Ambiguous(
            "config.json refers to other files for some versions of transformers (`configuration_files`), so it is "
            "not clear which file counts; keep one config.json"
        )
    if config.get("attribute_map") is not None:
        raise NothingToCompare(
            "config.json renames its keys (`attribute_map`), which transformers follows and other loaders do not; "
            "leave it out"
        )
    inside = {key: value for key, value in config.items() if key != WEIGHTS}
    for _, value in _entries(inside, {}, frozenset({WEIGHTS})):
        if value is not None:
            raise Ambiguous(
                f"config.json names the weights {printable(str(value), 200)} only for a part of the model "
                "(`transformers_weights`): loaders disagree on which file to use; name it once, at the top"
            )


def usual_type(config: Mapping[str, Any], architecture: str) -> str | None:
    """Return the tried model type by which transformers loads a model: the stated one, else that of its class."""
    declared = [value] if isinstance(value := config.get("model_type"), str) else []
    return next((kind for kind in (*declared, *_own(architecture)) if kind in kinds()), None)


def _own(architecture: str) -> list[str]:
    """Return the model types whose classes include this one."""
    return [kind for kind, model_type in _types().items() if architecture in model_type.classes]


def _of_type(config: Mapping[str, Any], architecture: str, factorization: Factorization) -> Iterator[str]:
    """Yield a sentence if class and `model_type` do not belong together and yet have the same layers."""
    own, kind = _own(architecture), config.get("model_type")
    if kind is None or kind in own or not own:
        return
    shown = printable(str(kind), 100)
    if not isinstance(kind, str) or not _alike(kind, config, factorization):
        raise NothingToCompare(
            f"config.json names the class {architecture}, which is of model_type {' or '.join(own)}, and says "
            f"model_type {shown}: transformers uses the type, other loaders use the class; make the two agree"
        )
    yield f"config.json says model_type {shown} with the class {architecture}; the layers of both are read the same way"


def _alike(kind: str, config: Mapping[str, Any], factorization: Factorization) -> bool:
    """Return whether every class of a type has its layers where this factorization says."""
    try:
        names = {lookup({**config, "architectures": [name]})[1].name for name in classes_of_type(kind)}
    except NothingToCompare:
        return False
    return names == {factorization.name}


def own_code(config: Mapping[str, Any], offers: Callable[[str], bool]) -> str:
    """Return a sentence about code that a loader is led to, here or in another repository; empty if to none."""
    named, waiting = {f"of {GENERATE}"} if offers(GENERATE) else set[str](), list[tuple[str, Any]]([("", config)])
    while waiting:
        key, value = waiting.pop()
        if key == "auto_map" and value:
            named.add(f"of the repository for {', '.join(value) if isinstance(value, dict) else value} ({key})")
        elif isinstance(value, Mapping):  # of implementations it may name one for each part, of a repository on the Hub
            waiting += ((key if key.endswith(CODE) else inner, each) for inner, each in value.items())
        elif key.endswith(CODE) and isinstance(value, str) and "/" in value:
            named.add(f"of {value} ({key})")
    told, as_loaded = printable(" and ".join(sorted(named)), 200), "the verdict is on the weights as transformers loads"
    return told and f"it is loaded with code {told}, which hf-lineage never runs: {as_loaded} them by itself"


def _refuse_dead(config: Mapping[str, Any], usual: str | None) -> None:
    """Raise NothingToCompare for a number with which the layers have hardly any effect, under a key that is read."""
    known = {id(part.config): part.kind.held for part in parts(config, usual)}
    for key, value in _entries(config, known, held()):
        for number in _numbers(value):
            if (why := _dead(key, number)) is not None:
                raise NothingToCompare(f"config.json says `{key}: {number!r}`, {why}; correct it")


def _dead(key: str, number: float) -> str | None:
    """Return why the weights of the layers have hardly any effect with this number; None where they have one."""
    table, size = _multipliers(), abs(number)
    if key in table.keys | table.limits and not table.least <= size < math.inf:
        return "which takes the layers out of the model: their weights have no effect"
    if key in table.beside and not table.least_beside <= size < math.inf:
        return "which takes the experts out of the model, or nearly so: their weights have hardly any effect"
    if key in table.keys | table.beside and size > table.most:
        return "so large that the other parts of the layers add almost nothing: their weights have hardly any effect"
    if key in table.epsilons and not 0 <= number <= table.most_epsilon:
        return "with which the norms hide the stream from the layers: their weights have no effect"
    if key in table.sparsities and not 0 <= number <= table.most_sparsity:
        return "which leaves almost nothing of the hidden units of a layer: their weights have hardly any effect"
    return None


def _entries(
    config: Mapping[str, Any], known: Mapping[int, frozenset[str]], usual: frozenset[str]
) -> Iterator[tuple[str, Any]]:
    """Yield keys that count with their values, also in nested objects: by `known`, else as in the outer object."""
    waiting: list[tuple[Any, frozenset[str]]] = [(config, usual)]
    while waiting:
        value, counting = waiting.pop()
        if isinstance(value, Mapping):
            counting = known.get(id(value), held() if "model_type" in value and known else counting)
            yield from ((key, each) for key, each in value.items() if key in counting)
            waiting += ((each, counting) for each in value.values())
        elif isinstance(value, list):
            waiting += ((each, counting) for each in value)


def _numbers(value: Any) -> Iterator[float]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, int | float) and not isinstance(item, bool):
            try:
                yield float(item)
            except OverflowError:
                yield math.inf


DIFFUSERS, TIMM, STRUCTURE = "diffusers.", "timm.", ("num_heads", "depth", "depths")
"""Prefixes of both libraries' classes, and settings of an architecture that `model_args` may overrule."""


def of_diffusers(config: Mapping[str, Any]) -> bool:
    """Return whether diffusers wrote `config.json`: only where no key asks transformers to load the folder.

    >>> of_diffusers({"_class_name": "UNet2DConditionModel", "_diffusers_version": "0.30"})
    True
    >>> of_diffusers({"_class_name": "SomeUNet", "architectures": ["SomeForCausalLM"]})
    False
    """
    return "_class_name" in config and not {"architectures", "model_type"} & config.keys()


def as_listed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `config.json` with the class that the registry lists, where it names none or another library wrote it.

    Where transformers is given a type and no class, it takes the model without a head.
    """
    if not config.get("architectures") and (classes := classes_of_type(config.get("model_type"))):
        return {**config, "architectures": [min(classes, key=lambda name: (not name.endswith("Model"), len(name)))]}
    if "architectures" in config or "model_type" in config:
        return dict(config)
    if of_diffusers(config) and isinstance(name := config["_class_name"], str):
        return {**config, "architectures": [f"{DIFFUSERS}{name}"]}
    if isinstance(name := config.get("architecture"), str):
        known, arguments = timm_architectures().get(name.partition(".")[0], {}), config.get("model_args")
        others = {key: arguments[key] for key in STRUCTURE if key in arguments} if isinstance(arguments, dict) else {}
        return {**config, "architectures": [f"{name} of timm"], **known, **others}
    return dict(config)


@functools.cache
def timm_architectures() -> Mapping[str, dict[str, Any]]:
    """Return architecture of timm -> its class, as `architectures`, and its settings."""
    kinds = registry_table("loading/timm.json", dict[str, dict[str, dict[str, Any]]])
    return {
        name: {"architectures": [f"{TIMM}{kind}"], **settings}
        for kind, architectures in kinds.items()
        for name, settings in architectures.items()
    }


T = TypeVar("T")


@dataclass(frozen=True)
class Within:
    """The prefix of the names, the settings and the renaming by which a part of a model is read as its class."""

    prefixes: tuple[str, ...] = ("",)
    """Possible prefixes of its tensors' names; one has to be on disk, and all other tensors are of other parts."""
    settings: str = ""
    """The key of `config.json` that holds its settings; empty where they are at the top."""
    layers: str = ""
    """The prefix of its layers as they are stored, with `{layer}`, where names in the layers are not the class's."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Stored name in a layer -> the name in the class."""

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
        return {self._named(name).removeprefix(place): each for name, each in here.items()}

    def config(self, whole: Mapping[str, Any]) -> dict[str, Any]:
        """Return its settings, with those of the storage."""
        own = setting(whole, self.settings) if self.settings else whole
        return {key: whole[key] for key in QUANTIZED if key in whole} | dict(own if isinstance(own, Mapping) else {})

    def _named(self, name: str) -> str:
        layer = (
            re.match(re.escape(self.layers).replace(r"\{layer\}", r"\d{1,6}") + r"\.", name) if self.renamed else None
        )
        inside = name[layer.end() :] if layer else ""
        old = next((old for old in self.renamed if inside == old or inside.startswith(f"{old}.")), None)
        return name if layer is None or old is None else f"{layer[0]}{self.renamed[old]}{inside[len(old) :]}"
