"""Settings of `config.json` that decide which model is loaded and whether its layers have an effect."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hf_lineage.architecture.lookup import lookup, registry_root
from hf_lineage.architecture.schema import Factorization
from hf_lineage.architecture.tables import read_table
from hf_lineage.errors import NothingToCompare, printable

MODEL_TYPES, MULTIPLIERS = "loading/model_types.json", "loading/multipliers.yaml"


class _Type(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One value of `model_type`."""

    classes: tuple[str, ...]
    depth: int | None = None
    """How many layers its models have where `config.json` does not say."""


class _Multipliers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    least: float
    keys: frozenset[str]
    least_beside: float
    beside: frozenset[str]
    most: float
    epsilons: frozenset[str]


@functools.cache
def _types() -> Mapping[str, _Type]:
    types: dict[str, _Type] = read_table(registry_root(), MODEL_TYPES, dict[str, _Type])
    return types


@functools.cache
def _multipliers() -> _Multipliers:
    multipliers: _Multipliers = read_table(registry_root(), MULTIPLIERS, _Multipliers)
    return multipliers


def default_depth(kind: Any) -> int | None:
    """Return how many layers a model of a type has where `config.json` does not say; None if that is not known."""
    model_type = _types().get(kind) if isinstance(kind, str) else None
    return model_type.depth if model_type else None


def settings_notes(config: Mapping[str, Any], architecture: str, factorization: Factorization) -> tuple[str, ...]:
    """Return sentences about settings that other loaders may follow in another way.

    Raise NothingToCompare where `config.json` leads to another class or file, or takes the layers out of the model.
    """
    _refuse_other_files(config)
    _refuse_dead(config)
    return (*_of_type(config, architecture, factorization), *_own_code(config))


def _refuse_other_files(config: Mapping[str, Any]) -> None:
    if config.get("configuration_files"):
        raise NothingToCompare(
            "config.json hands over to other files (`configuration_files`), by the version of transformers; which one "
            "counts is not decided here, keep one config.json"
        )
    if config.get("attribute_map") is not None:
        raise NothingToCompare(
            "config.json says which of its keys stand for others (`attribute_map`), which transformers follows and "
            "other loaders do not; leave it out"
        )
    for key, value in _entries({key: value for key, value in config.items() if key != "transformers_weights"}):
        if key == "transformers_weights" and value is not None:
            raise NothingToCompare(
                f"config.json names the weights {printable(str(value), 200)} for a part of the model alone "
                "(`transformers_weights`): loaders disagree which file counts; name it once, at the top"
            )


def _of_type(config: Mapping[str, Any], architecture: str, factorization: Factorization) -> Iterator[str]:
    """A sentence if class and `model_type` do not belong together and yet have the same layers."""
    kinds = [kind for kind, model_type in _types().items() if architecture in model_type.classes]
    kind = config.get("model_type")
    if kind is None or kind in kinds or not kinds:
        return
    shown = printable(str(kind), 100)
    if not isinstance(kind, str) or not _alike(kind, config, factorization):
        raise NothingToCompare(
            f"config.json names the class {architecture}, which is of model_type {' or '.join(kinds)}, and says "
            f"model_type {shown}: transformers goes by the type, other loaders by the class; make the two agree"
        )
    yield f"config.json says model_type {shown} of the class {architecture}; the layers of both are read alike"


def _alike(kind: str, config: Mapping[str, Any], factorization: Factorization) -> bool:
    """Whether every class of a type has its layers where this factorization says."""
    classes = _types()[kind].classes if kind in _types() else ()
    try:
        names = {lookup({**config, "architectures": [name]})[1].name for name in classes}
    except NothingToCompare:
        return False
    return names == {factorization.name}


def _own_code(config: Mapping[str, Any]) -> Iterator[str]:
    named = config.get("auto_map")
    if named:
        classes = sorted(map(str, named)) if isinstance(named, Mapping) else [str(named)]
        yield (
            f"config.json names code of the repository's own for {printable(', '.join(classes), 200)} (auto_map), "
            "which is never run here: what a loader makes of the weights with trust_remote_code was not judged"
        )


def _refuse_dead(config: Mapping[str, Any]) -> None:
    table = _multipliers()
    for key, value in _entries(config):
        for number in _numbers(value):
            if key in table.keys and not (table.least <= abs(number) < math.inf):
                raise NothingToCompare(
                    f"config.json says `{key}: {number!r}`, which takes the layers out of the model: their weights "
                    "have no effect; correct it"
                )
            if key in table.beside and not (table.least_beside <= abs(number) < math.inf):
                raise NothingToCompare(
                    f"config.json says `{key}: {number!r}`, which takes its experts out of the model, or nearly so: "
                    "their weights have hardly an effect; correct it"
                )
            if key in table.epsilons and not (0 <= number <= table.most):
                raise NothingToCompare(
                    f"config.json says `{key}: {number!r}`, with which the norms hide the stream from the layers: "
                    "their weights have no effect; correct it"
                )


def _entries(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every key with its value, also those of nested objects."""
    waiting: list[Any] = [config]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            yield from value.items()
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _numbers(value: Any) -> Iterator[float]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, int | float) and not isinstance(item, bool):
            try:
                yield float(item)
            except OverflowError:
                yield math.inf
