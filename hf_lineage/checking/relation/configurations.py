"""Configurations: in which settings two models of one class differ, with what each leaves to its class.

Versions of transformers write more or fewer settings, and under other names, so that two files that say the same are
rarely equal: its class says what a file means. Where transformers is not installed or does not know the class, the
files themselves are compared. A setting that only one of them has then counts as another.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from hf_lineage.architecture.loading import usual_type
from hf_lineage.checking.source import SAVED, Opened
from hf_lineage.errors import installation, printable

STORAGE = frozenset(
    SAVED
    | {"architectures", "dtype", "torch_dtype", "use_cache", "tokenizer_class", "transformers.js_config"}
    | {"unsloth_fixed", "unsloth_version", "finetuning_task", "task_specific_params"}
    | {"quantization_config", "compression_config", "quantization", "_attn_implementation_autoset"}
)
"""Settings that say who saved a model, how it is stored and how it is run, and nothing about what it computes."""
OWN_CODE, ROTARY, WHOLE = "auto_map", "rope_parameters", "full_attention"
THETA, POSITIONS = "rope_theta", frozenset({"factor", "sliding_window"})
"""Settings that metadata hold only for a class that has them, and one that they are given for every class."""
NOTHING = object()
Settings = Mapping[str, Any]


def differing_settings(base: Opened, candidate: Opened) -> tuple[str, ...]:
    """Return the settings that differ, as phrases; of the metadata of a converted model only those that they hold."""
    first, second = dict(base.described.config), dict(candidate.described.config)
    code, of_base = second.pop(OWN_CODE, None) or None, first.pop(OWN_CODE, None)
    other = () if code in (None, of_base) else (f"{OWN_CODE} names code of the repository that the base does not have",)
    compare: Callable[[Settings, Settings], Iterator[str]] = differing
    if _is_metadata(base) or _is_metadata(candidate):
        compare = functools.partial(_of_metadata, few=1 if _is_metadata(candidate) else 0)
    is_known = compare is not differing and (ROTARY in (*first, *second) or THETA in first.keys() & second.keys())
    if _stated(first) == _stated(second) or (is_known and not [*compare(first, second)]):
        return other
    if not all(map(find_spec, ("torch", "transformers"))):
        unknown = f"without transformers it is not known what a file leaves to its class; {installation('run')}"
        return (*other, *compare(first, second), unknown)
    return (*other, *compare(_completed(first, base), _completed(second, candidate)))


def _is_metadata(model: Opened) -> bool:
    """Return whether a configuration was made of the metadata of a converted model, and not of its `config.json`."""
    return model.described.foreign is not None and "model_type" not in model.described.config


def _completed(config: dict[str, Any], model: Opened) -> dict[str, Any]:
    """Return a configuration with what it leaves to its class, where that is known."""
    from hf_lineage.running import complete

    kind = usual_type(config, model.described.architecture)
    return config if _is_metadata(model) or not kind else complete(kind, config) or config


def _stated(settings: Settings) -> Settings:
    return {key: value for key, value in settings.items() if key not in STORAGE}


def differing(first: Settings, second: Settings, within: str = "") -> Iterator[str]:
    """Yield as a phrase each setting of the second model that is another in the first."""
    for key in dict.fromkeys((*second, *first)):
        if key in STORAGE:
            continue
        one, other = (settings.get(key, _rotary(settings, key)) for settings in (first, second))
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from differing(one, other, f"{within}{key}.")
        elif not _alike(*(None if each is NOTHING else each for each in (one, other))):
            yield _phrase(f"{within}{key}", one, other)


def _of_metadata(first: Settings, second: Settings, few: int) -> Iterator[str]:
    """Yield differing settings; metadata, of the first or the second model, hold some, as one number for all layers."""
    whole = (second, first)[few]
    for key, value in (first, second)[few].items():
        known = whole.get(key, _rotary(whole, key))
        other = key in POSITIONS if known is NOTHING else not _alike(value, known)
        is_none = value == 0 and (known is NOTHING or not known)  # llama.cpp writes 0 for no window
        if other and not is_none and key not in STORAGE:
            yield _phrase(key, *((known, value) if few else (value, known)))


def _rotary(settings: Mapping[str, Any], key: str) -> Any:
    """Return the setting of rotary positions that stands among these, for layers that see the whole text."""
    rotary = settings.get(ROTARY)
    if not isinstance(rotary, Mapping):
        return NOTHING
    return (inner if isinstance(inner := rotary.get(WHOLE), Mapping) else rotary).get(key, NOTHING)


def _alike(one: Any, other: Any) -> bool:
    """Return whether two values of a setting are one; the metadata of converted models hold numbers of 32 bits."""
    numbers = [value for value in (one, other) if isinstance(value, int | float) and not isinstance(value, bool)]
    return bool(np.float32(one) == np.float32(other)) if len(numbers) == 2 else one == other


def _phrase(key: str, one: Any, other: Any) -> str:
    name = printable(key, 100)
    if one is NOTHING:
        return f"{name} is {_shown(other)}, and the base has no such setting"
    if other is NOTHING:
        return f"{name} is only in the base, as {_shown(one)}"
    return f"{name} is {_shown(other)}, and {_shown(one)} in the base"


def _shown(value: Any) -> str:
    return printable(json.dumps(value, default=str), 100)
