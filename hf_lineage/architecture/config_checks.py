"""Settings of `config.json` that decide which model is loaded, whether layers have an effect, and where parts stand.

The effect was measured on transformers' modules (`python -m tests.settings`). Classes of diffusers and timm are listed
behind the name of their library, so that no `config.json` of transformers can mean one.
"""

import contextlib
import functools
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from hf_lineage.architecture.registry import lookup, registry_table, setting
from hf_lineage.architecture.schema import Factorization
from hf_lineage.errors import Ambiguous, NothingToCompare, printable

MODEL_TYPES, MULTIPLIERS, SETTINGS = "loading/model_types.json", "loading/multipliers.yaml", "loading/settings.json"
WEIGHTS, CODE = "transformers_weights", "_implementation"
QUANTIZED = ("quantization_config", "compression_config")  # Keys at the top that say how all weights are stored
DIFFUSERS, TIMM, STRUCTURE = "diffusers.", "timm.", ("num_heads", "depth", "depths")  # Which may be overruled


class ModelType(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One value of `model_type`."""

    classes: tuple[str, ...]
    depth: int | None = None  # The number of layers of its models where `config.json` does not state it
    activation: str | None = None  # The value of `hidden_act` where `config.json` does not state it


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


class Fine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values of a setting with which every branch of a layer reaches the stream."""

    least: float | None = None
    most: float | None = None
    others: tuple[bool | str | None, ...] = ()  # The values that are no numbers

    def holds(self, value: Any) -> bool:
        """Return whether every number, word or switch of a value is one of them."""
        return all(map(self._holds, value if isinstance(value, list) else [value]))

    def _holds(self, value: Any) -> bool:
        if not isinstance(value, int | float):
            return value in self.others if isinstance(value, str | None) else isinstance(value, Mapping)
        switches = [other for other in self.others if isinstance(other, bool)]
        if value in (0, 1) and switches:
            return bool(value) in switches
        fits = (self.least is None or value >= self.least) and (self.most is None or value <= self.most)
        return fits and (self.least, self.most) != (None, None)

    def __str__(self) -> str:
        least = f" from {self.least:g}" if self.least is not None else ""
        most = f" to {self.most:g}" if self.most is not None else ""
        numbers = [f"numbers{least}{most}"] if least or most else []
        return " or ".join((*numbers, *(json.dumps(other) for other in self.others if other is not None)))


class Outside(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a small tensor takes a branch out of the stream if its numbers are too small, or too large."""

    small: bool = False
    large: bool = False


class Kind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model type."""

    settings: str  # A mark that shows whether transformers has given the type other settings than those that were tried
    held: frozenset[str] = frozenset()  # The keys of `loading/multipliers.yaml` that stand in its code
    rest: Mapping[str, Fine] = {}  # Key, dotted for one inside another -> values with which every branch has an effect
    small: Mapping[str, Outside] = {}  # Small tensor in a layer, without `.weight` -> sides that take a branch out
    inner: Mapping[str, str] = {}  # Key of an inner configuration -> its model type, where it does not state one itself


class Part(NamedTuple):
    """A configuration, or one inside of another, with the measurements of its model type."""

    name: str
    kind: Kind
    config: Mapping[str, Any]


_types = functools.partial(registry_table, MODEL_TYPES, dict[str, ModelType])
_multipliers = functools.partial(registry_table, MULTIPLIERS, _Multipliers)
kinds = functools.partial(registry_table, SETTINGS, dict[str, Kind])


def bounded_keys() -> frozenset[str]:
    """Return the keys of `config.json` whose values must lie in a range."""
    table = _multipliers()
    return table.keys | table.limits | table.beside | table.epsilons | table.sparsities


def known_type(kind: Any) -> ModelType:
    """Return what is known of a `model_type`: nothing, and no classes, of one that is not in the table."""
    return _types().get(kind if isinstance(kind, str) else "", ModelType(classes=()))


def usual_activations(classes: Collection[str]) -> tuple[str, ...]:
    """Return the values of `hidden_act` in the types of some classes where `config.json` does not state it."""
    return tuple(kind.activation for kind in _types().values() if kind.activation and set(kind.classes) & set(classes))


def settings_notes(config: Mapping[str, Any], architecture: str, factorization: Factorization) -> tuple[str, ...]:
    """Return what other loaders may follow otherwise; NothingToCompare for what leads elsewhere or takes layers out."""
    if config.get("configuration_files"):
        versions = "other files for some versions of transformers (`configuration_files`)"
        raise Ambiguous(f"config.json refers to {versions}, so it is not clear which file counts; keep one config.json")
    if config.get("attribute_map") is not None:
        renames = "config.json renames its keys (`attribute_map`)"
        raise NothingToCompare(f"{renames}, which transformers follows and other loaders do not; leave it out")
    inside = {key: value for key, value in config.items() if key != WEIGHTS}
    partial = [value for _, value in _entries(inside, {}, frozenset({WEIGHTS})) if value is not None]
    if partial:
        part = f"{printable(str(partial[0]), 200)} only for a part of the model (`{WEIGHTS}`)"
        once = "loaders disagree on which file to use; name it once, at the top"
        raise Ambiguous(f"config.json names the weights {part}: {once}")
    _refuse_dead(config, usual_type(config, architecture))
    own, kind = _own(architecture), config.get("model_type")
    if kind is None or kind in own or not own:
        return ()
    text, names = printable(str(kind), 100), set[str]()
    if isinstance(kind, str):
        with contextlib.suppress(NothingToCompare):  # whether every class of the type has its layers in these places
            names = {lookup({**config, "architectures": [name]})[1].name for name in known_type(kind).classes}
    if names != {factorization.name}:
        raise NothingToCompare(
            f"config.json names the class {architecture}, which is of model_type {' or '.join(own)}, and says "
            f"model_type {text}: transformers uses the type, other loaders use the class; make the two agree"
        )
    sentence = f"config.json says model_type {text} with the class {architecture}"
    return (f"{sentence}; the layers of both are read the same way",)


def usual_type(config: Mapping[str, Any], architecture: str) -> str | None:
    """Return the tried model type by which transformers loads a model: the stated one, else that of its class."""
    declared = [value] if isinstance(value := config.get("model_type"), str) else []
    return next((kind for kind in (*declared, *_own(architecture)) if kind in kinds()), None)


def _own(architecture: str) -> list[str]:
    return [kind for kind, model_type in _types().items() if architecture in model_type.classes]


def parts(config: Mapping[str, Any], usual: str | None) -> Iterator[Part]:
    """Yield a configuration and those inside of it, as far as their types were tried; `usual` is its type by class."""
    waiting: list[tuple[Mapping[str, Any], str | None]] = [(config, usual)]
    while waiting:
        inside, usual = waiting.pop()
        declared = inside.get("model_type")
        name = declared if isinstance(declared, str) and declared in kinds() else usual
        kind = kinds().get(name or "")
        if name and kind:
            yield Part(name, kind, inside)
        known = kind.inner if kind else {}
        waiting += [(value, known.get(key)) for key, value in inside.items() if isinstance(value, Mapping)]


def settings_reservations(config: Mapping[str, Any], usual: str | None) -> Iterator[str]:
    """Yield a sentence for each setting with which a branch may not reach the stream."""
    for part in parts(config, usual):
        for key, fine in part.kind.rest.items():
            outer, _, last = key.rpartition(".")
            within = setting(part.config, outer) if outer else part.config
            if isinstance(within, Mapping) and last in within and not fine.holds(within[last]):
                value = printable(json.dumps(within[last], default=str), 100)
                lost = f"a branch of the layers of {part.name} may not reach the stream"
                yield f"config.json says `{key}: {value}`, with which {lost}; with {fine} every branch does"


def own_code(config: Mapping[str, Any], offers: Callable[[str], bool]) -> str:
    """Return a sentence about code that a loader is led to, here or in another repository; empty if to none."""
    generate = "custom_generate/generate.py"
    codes, waiting = {f"of {generate}"} if offers(generate) else set[str](), list[tuple[str, Any]]([("", config)])
    while waiting:
        key, value = waiting.pop()
        if key == "auto_map" and value:
            codes.add(f"of the repository for {', '.join(value) if isinstance(value, dict) else value} ({key})")
        elif isinstance(value, Mapping):  # of implementations it may name one for each part, of a repository on the Hub
            waiting += ((key if key.endswith(CODE) else inner, each) for inner, each in value.items())
        elif key.endswith(CODE) and isinstance(value, str) and "/" in value:
            codes.add(f"of {value} ({key})")
    words = printable(" and ".join(sorted(codes)), 200)
    never = "which hf-lineage never runs: the verdict is on the weights as transformers loads them by itself"
    return words and f"it is loaded with code {words}, {never}"


def _refuse_dead(config: Mapping[str, Any], usual: str | None) -> None:
    """Raise NothingToCompare for a number with which the layers have hardly any effect, under a key that is read."""
    table, known = _multipliers(), {id(part.config): part.kind.held for part in parts(config, usual)}
    hardly, out = "their weights have hardly any effect", "which takes the {} out of the model"
    for key, value in _entries(config, known, bounded_keys()):
        for number in map(_number, value if isinstance(value, list) else [value]):
            if number is None:
                continue
            size, why = abs(number), ""
            if key in table.keys | table.limits and not table.least <= size < math.inf:
                why = f"{out.format('layers')}: their weights have no effect"
            elif key in table.beside and not table.least_beside <= size < math.inf:
                why = f"{out.format('experts')}, or nearly so: {hardly}"
            elif key in table.keys | table.beside and size > table.most:
                why = f"so large that the other parts of the layers add almost nothing: {hardly}"
            elif key in table.epsilons and not 0 <= number <= table.most_epsilon:
                why = "with which the norms hide the stream from the layers: their weights have no effect"
            elif key in table.sparsities and not 0 <= number <= table.most_sparsity:
                why = f"which leaves almost nothing of the hidden units of a layer: {hardly}"
            if why:
                raise NothingToCompare(f"config.json says `{key}: {number!r}`, {why}; correct it")


def _entries(
    config: Mapping[str, Any], known: Mapping[int, frozenset[str]], usual: frozenset[str]
) -> Iterator[tuple[str, Any]]:
    """Yield keys that count with their values, also in nested objects: by `known`, else as in the outer object."""
    waiting: list[tuple[Any, frozenset[str]]] = [(config, usual)]
    while waiting:
        value, counting = waiting.pop()
        if isinstance(value, Mapping):
            counting = known.get(id(value), bounded_keys() if "model_type" in value and known else counting)
            yield from ((key, each) for key, each in value.items() if key in counting)
            waiting += ((each, counting) for each in value.values())
        elif isinstance(value, list):
            waiting += ((each, counting) for each in value)


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    with contextlib.suppress(OverflowError):
        return float(value)
    return math.inf


def of_diffusers(config: Mapping[str, Any]) -> bool:
    """Return whether diffusers wrote `config.json`: only where no key asks transformers to load the folder."""
    return "_class_name" in config and not {"architectures", "model_type"} & config.keys()


def as_listed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `config.json` with the listed class; of a type without a class transformers takes that without a head."""
    if not config.get("architectures") and (classes := known_type(config.get("model_type")).classes):
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
    table = registry_table("loading/timm.json", dict[str, dict[str, dict[str, Any]]])
    rows = [(name, kind, settings) for kind, known in table.items() for name, settings in known.items()]
    return {name: {"architectures": [f"{TIMM}{kind}"], **settings} for name, kind, settings in rows}
