"""A class under many settings: each setting that may decide what it builds is changed, one at a time."""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from hf_lineage.architecture.registry import setting, unmet
from hf_lineage.architecture.schema import Factorization, as_stacks
from tests.conformance.forms import variants
from tests.conformance.models import _asked, put, required, transformers
from tests.tensors.names import Loaded, loaded, module

DEPTHS = {"num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth", "encoder_layers", "decoder_layers"}
EXPERTS = {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}
LAYERS = 4
IRRELEVANT = re.compile(
    r"model_type|.*(token|_id|dropout|drop_rate|eps|epsilon|initializer|init_std|rope|dtype|label|problem|return_dict|output_hidden"
    r"|output_attentions|torchscript|chunk_size_feed|architectures|_version|_name_or_path|use_cache|vocab_size|theta"
    r"|max_position|seq_len|mask_time|mask_feature|image_size|_coef|attn_implementation|experts_implementation).*"
)
SMALL = 8
Path = tuple[str, ...]
DEFAULT = ("",)


@dataclass(frozen=True)
class Seen:
    asked: dict[str, Any]  # what its configuration was made from, which leaves out what the class derives
    found: Loaded
    changed: Path = ()  # the setting that differs from those of the first of its kind; none in the first


def look(name: str, wanted: dict[str, Any], changed: Path = ()) -> Seen | None:
    """A class under some settings; None where it cannot be built."""
    try:
        asked = _asked(getattr(transformers, name).config_class, copy.deepcopy(wanted))
        return Seen(asked, loaded(module(name, wanted)), changed)
    except Exception:
        return None


def inside(said: Any, path: Path) -> dict[str, Any]:
    within = setting(said, ".".join(path)) if path else said
    return within if isinstance(within, dict) else {}


def outer_keys(factorization: Factorization) -> set[Path]:
    """Where in `config.json` settings of the layers may stand."""
    counted = [as_stacks(stacks) for stacks in (factorization.heads, factorization.depth or ())]
    named = {key for stacks in counted for keys in stacks.values() for key in keys} | factorization.requires.keys()
    return {()} | {tuple(key.split(".")[:-1]) for key in named if "{" not in key}


def longer(factorization: Factorization, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """The settings for four layers, where the class can be built so."""
    plain = look(name, wanted)
    assert plain, f"{name} cannot be built as tests/conformance/forms.py asks for it"
    asked = wanted
    for path in outer_keys(factorization):
        for key, depth in inside(plain.found.config, path).items():
            if key in DEPTHS and isinstance(depth, int) and 0 < depth < LAYERS:
                asked = put(asked, (*path, key), LAYERS)
                for other, value in inside(wanted, path).items():
                    if isinstance(value, list) and len(value) == depth and not isinstance(value[0], int):
                        asked = put(asked, (*path, other), (value * LAYERS)[:LAYERS])
    return asked if look(name, asked) else wanted


@functools.cache
def words(name: str, key: str) -> tuple[str, ...]:
    """The words that the source of a class compares a setting with."""
    source = inspect.getsource(inspect.getmodule(getattr(transformers, name)))  # type: ignore[arg-type]
    lines = re.findall(rf"\b{re.escape(key)}\b[^\n]*", source)
    return tuple(sorted({word for line in lines for word in re.findall(r"[\"']([\w-]+)[\"']", line)} - {key}))


def others(factorization: Factorization, name: str, path: Path, value: Any) -> Iterator[Any]:
    """Other values of a setting that may make the class build something else."""
    required_values = factorization.requires.get(".".join(path))
    yield from required_values if isinstance(required_values, tuple) else ()
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        small = (0.0, 0.5, None) if isinstance(value, float) else (0, 1, 2, 3, None) if value <= SMALL else (0, None)
        yield from (other for other in small if isinstance(value, float) or other != value)
    elif value is None:
        yield from (True, 1, 12, [0], [1, 2], *words(name, path[-1]))
    elif isinstance(value, str):
        yield from (*words(name, path[-1]), None)
    elif isinstance(value, list | tuple):
        yield from lists(name, path[-1], list(value))


def lists(name: str, key: str, value: list[Any]) -> Iterator[list[Any] | None]:
    """Other lists: none, one layer's number or several, and where there are words, others in another order."""
    yield from (None, [], [0], [1, 2])
    if value and all(isinstance(entry, str) for entry in value):
        known = sorted({*value, *words(name, key)})
        yield from ([word] * len(value) for word in known)
        yield from ([word, *value[1:]] for word in known)
        yield from ([*value[:-1], word] for word in known)
    elif value and all(isinstance(entry, int) for entry in value) and len(value) == LAYERS:
        yield from ([int(at == number) for at in range(LAYERS)] for number in range(LAYERS))


def places(factorization: Factorization, config: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    """The settings that may decide what the layers are, with their values."""
    for path in sorted(outer_keys(factorization)):
        for key, value in inside(config, path).items():
            asked = ".".join((*path, key)) in factorization.requires
            if not isinstance(value, dict) and (asked or not IRRELEVANT.fullmatch(key)):
                yield (*path, key), value


def explored(factorization: Factorization, name: str, deep: bool = True) -> list[list[Seen]]:
    kinds = [required(factorization, name, kind) for kind in variants(name)]
    found = [list(around(factorization, name, kind, deep)) for kind in kinds]
    return found + (by_default(factorization, name) if deep else [])


def by_default(factorization: Factorization, name: str) -> list[list[Seen]]:
    """A class as its configuration is by itself, of fewer layers and experts; nothing where it cannot be built so."""
    kind, wanted = getattr(transformers, name).config_class, dict[str, Any]()
    for path in outer_keys(factorization):
        for key in (DEPTHS | EXPERTS) & inside(kind().to_dict(), path).keys():
            wanted = put(wanted, (*path, key), LAYERS)
    try:
        with torch.device("meta"):
            found = loaded(getattr(transformers, name)(kind(**copy.deepcopy(wanted))))
    except Exception:
        return []
    return [[Seen(wanted, found, DEFAULT)]] if unmet(found.config, factorization.requires) is None else []


def around(factorization: Factorization, name: str, wanted: dict[str, Any], deep: bool) -> Iterator[Seen]:
    """A class under some settings, and with each of them changed."""
    plain = look(name, wanted)
    assert plain, f"{name} cannot be built as tests/conformance/forms.py asks for it"
    yield plain
    if not deep:
        return
    first = look(name, wanted := longer(factorization, name, wanted))
    assert first
    yield first
    for path, value in places(factorization, first.found.config):
        for other in others(factorization, name, path, value):
            if seen := look(name, put(wanted, path, other), path):
                yield seen
