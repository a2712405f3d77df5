"""The names of the tensors that a class of transformers loads under some settings: its module on the meta device."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch
from transformers import conversion_mapping, core_model_loading

from hf_lineage.architecture.class_tensors import relative
from hf_lineage.architecture.layers import find_layers
from hf_lineage.architecture.schema import Factorization, as_stacks
from hf_lineage.errors import CheckpointError
from tests.conformance.models import tiny_config, transformers


@dataclass(frozen=True)
class Loaded:
    """What a module loads: every name that its loader understands, with what it becomes."""

    config: dict[str, Any]  # what `config.json` says where transformers writes it
    saved: frozenset[str]  # the names that `save_pretrained` writes, copies of tied tensors among them
    groups: Mapping[str, str]  # name on disk -> what it is loaded into, those that are stored together under one name
    optional: frozenset[str]  # groups that a file need not have: buffers, tied, and what the class does not miss
    tied: Mapping[str, str]  # groups of which a file needs only one -> one of them
    vectors: frozenset[str]  # names on disk of tensors with one dimension


def module(name: str, wanted: dict[str, Any]) -> Any:
    with torch.device("meta"):
        return getattr(transformers, name)(tiny_config(name, wanted))


def renamers(model: Any) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """How transformers renames and stacks on loading, and the way back."""
    transforms = conversion_mapping.get_model_conversion_mapping(model)
    back = [one.reverse_transform() for one in transforms[::-1]]
    kinds = (core_model_loading.WeightRenaming, core_model_loading.WeightConverter)
    return tuple([one for one in ways if isinstance(one, kind)] for ways in (transforms, back) for kind in kinds)  # type: ignore[return-value]


def loaded(model: Any) -> Loaded:
    state = model.state_dict()
    alike = _repeated(model)
    kind = (type(model).__name__, tuple(state), tuple(sorted(map(tuple, map(sorted, alike)))))
    if kind not in _KNOWN:
        _KNOWN.clear() if len(_KNOWN) > MOST_KNOWN else None
        _KNOWN[kind] = _loaded(model, state, alike)
    return replace(_KNOWN[kind], config=model.config.to_dict())


_KNOWN: dict[Any, Loaded] = {}
MOST_KNOWN = 100
"""Most settings change no name, and what the loader makes of the same names is the same."""


def targets(model: Any, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield those of these names on disk that the loader takes, each with what it becomes in memory."""
    state, ways = model.state_dict(), renamers(model)[:2]
    for name in names:
        for some in (ways, ([], [])) if name in state else (ways,):
            found = str(core_model_loading.rename_source_key(name, *some, model.base_model_prefix, state)[0])
            if found in state:
                yield name, found
                break


def _loaded(model: Any, state: dict[str, Any], alike: list[set[str]]) -> Loaded:
    _, _, back, back_converters = renamers(model)

    def together(name: str) -> str:
        return str(core_model_loading.apply_converters(name, back_converters)[0])

    saved = dict(core_model_loading.revert_weight_conversion(model, state))
    known = {**state, **saved}
    names = known.keys() | {one.rename_source_key(name)[0] for one in back for name in known}
    start = f"{model.base_model_prefix}."
    names |= {name.removeprefix(start) for name in names} | {f"{start}{name}" for name in names if start not in name}
    unmissed = model._keys_to_ignore_on_load_missing or ()
    free = set().union(*alike) | {name for name, _ in model.named_buffers()}
    return Loaded(
        config={},
        saved=frozenset(saved),
        groups={name: together(found) for name, found in targets(model, sorted(names))},
        optional=frozenset(
            together(name) for name in state if name in free or any(re.search(one, name) for one in unmissed)
        ),
        tied={together(name): together(min(pair)) for pair in alike for name in pair},
        vectors=frozenset(name for name, tensor in known.items() if tensor.ndim == 1),
    )


def _repeated(model: Any) -> list[set[str]]:
    by_parameter: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        by_parameter.setdefault(id(parameter), set()).add(name)
    tied = getattr(model, "all_tied_weights_keys", None) or {}
    return [names for names in by_parameter.values() if len(names) > 1] + [set(pair) for pair in tied.items()]


Place = tuple[str, str, int, int]
"""Pattern of a prefix, name of a stack, number of its stage, number of a layer."""


def by_layer(factorization: Factorization, names: Iterable[str]) -> Iterator[tuple[Place, str, str]]:
    """Of every name inside a layer its place, its pattern within the layer, and the name itself."""
    shapes = dict.fromkeys(names, ())
    stacks = as_stacks(factorization.layers)
    for prefix, stack in ((prefix, stack) for stack, prefixes in stacks.items() for prefix in prefixes):
        alone = msgspec.structs.replace(factorization, layers={stack: prefix} if stack else prefix)
        with contextlib.suppress(CheckpointError):
            for layer in find_layers(alone, shapes):
                place = (prefix, stack, layer.stack.stage, layer.number)
                yield from ((place, relative(layer, name), name) for name in layer.shapes)
