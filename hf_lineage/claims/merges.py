"""Merges: the parents that a configuration of mergekit names, and the recipe by which it combines them; untrusted."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from hf_lineage.claims.names import Name, names_in
from hf_lineage.errors import printable
from hf_lineage.files import safe_yaml

LINEAR, SLERP, PASS_THROUGH = "linear", "slerp", "passthrough"
FROM_BASE = "task_", "ties", "dare_", "della", "breadcrumbs", "model_breadcrumbs", "sce", "model_stock"
LARGEST_WEIGHT = 1e6
MOST = 1000  # Weights of one model, and numbers of one gradient; a recipe with more is not read
_BLOCK = re.compile(r"^(`{3,}|~{3,})[ \t]*ya?ml[ \t]*\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class MergeRecipe:
    """The method, base model, weights and layers by which a merge says that it was made."""

    method: str
    base: str = ""  # The model from which differences are taken; empty where the method takes none
    settings: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # Model -> by slice a number, gradient or list
    layers: Mapping[str, int] = field(default_factory=dict)  # Model, in lower case -> number of layers taken from it

    def weight(self, model: str, tensor: str) -> float | None:
        """Return a model's weight in a tensor, in a linear merge as its share; None where it is not declared."""
        if self.method == PASS_THROUGH:
            return self.layers[model] / sum(self.layers.values()) if self.layers.get(model) else None
        weights = {name: _mean(settings, tensor) for name, settings in self.settings.items()}
        if self.method != LINEAR or model not in weights:
            return weights.get(model)
        numbers = [weight for weight in weights.values() if weight is not None]
        own, total = weights[model], sum(numbers)
        return None if own is None or len(numbers) < len(weights) or abs(total) < 1e-6 else own / total


def parents_in(config: Mapping[str, Any]) -> Iterator[Name]:
    """Yield the parents in a configuration of mergekit: its base, and those of its models, slices and modules."""
    yield from _model_name(config.get("base_model"))
    for _, key, entry in _sources(config):
        yield from _model_name(entry.get(key))


def recipe_in(config: Mapping[str, Any]) -> MergeRecipe | None:
    """Return the recipe of a configuration of mergekit, None if it names no method."""
    method = config.get("merge_method")
    if not isinstance(method, str):
        return None
    method = printable(method.strip().lower(), 40)
    base, key = _name(config.get("base_model")), "t" if method == SLERP else "weight"
    settings, layers = dict[str, list[Any]](), dict[str, int]()
    for common, named, entry in _sources(config):
        if named != "model" or not (name := _name(entry.get(named))):
            continue
        parameters = (some for some in [entry.get("parameters"), *common] if isinstance(some, dict))
        value = next((some[key] for some in parameters if key in some), None)
        if value is not None:
            # SLERP gives t to the second model, 1 - t to the base.
            settings.setdefault(name, []).append({"less": value} if method == SLERP and name == base else value)
        span = entry.get("layer_range")
        first, last = map(_number, span) if isinstance(span, list) and len(span) == 2 else (None, None)
        is_range = first is not None and last is not None and 0 <= first <= last
        layers[name] = layers.get(name, 0) + (int((last or 0) - (first or 0)) if is_range else 0)
    # Methods whose names begin so add differences from their base.
    return MergeRecipe(method, base if method.startswith(FROM_BASE) else "", settings, layers)


def recipe_in_card(text: str) -> MergeRecipe | None:
    """Return the recipe in the first block of YAML in a card that holds one, as mergekit writes it; None without."""
    blocks = (block[2] for block in _BLOCK.finditer(text.replace("\r\n", "\n")) if "merge_method" in block[2])
    try:
        config = safe_yaml.load(next(blocks, ""))
    except yaml.YAMLError:
        return None
    return recipe_in(config) if isinstance(config, dict) else None


def _sources(config: Mapping[str, Any]) -> Iterator[tuple[list[Any], str, Mapping[str, Any]]]:
    """Yield every model: the parameters that hold for it if it has none, the nearest first; its key and its entry."""
    modules, whole = config.get("modules"), config.get("parameters")
    inside = (part for part in (modules.values() if isinstance(modules, dict) else ()) if isinstance(part, dict))
    for part in (config, *inside):
        outer = [whole] if part is config else [part.get("parameters"), whole]
        for models, key in (("models", "model"), ("experts", "source_model"), ("shared_experts", "source_model")):
            yield from ((outer, key, entry) for entry in _entries(part.get(models)))
        for piece in _entries(part.get("slices")):
            inner = [piece.get("parameters"), *outer]
            yield from ((inner, "model", entry) for entry in _entries(piece.get("sources")))


def _mean(settings: Sequence[Any], tensor: str) -> float | None:
    """Return the mean of a weight over layers and slices; None where one cannot be read or holds for other tensors."""
    values = [_value(setting, tensor) for setting in settings] if len(settings) <= MOST else [None]
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers and len(numbers) == len(values) else None


def _value(setting: Any, tensor: str) -> float | None:
    """Return one setting as a number: a gradient is interpolated between the first layer and the last."""
    if isinstance(setting, dict):
        if "less" in setting:
            value = _value(setting["less"], tensor)
            return None if value is None else 1 - value
        return _value(setting.get("value"), tensor) if _holds(setting, tensor) else None
    if not isinstance(setting, list) or len(setting) > MOST:
        return _number(setting)
    if any(isinstance(some, dict) for some in setting):
        chosen = next((some for some in setting if isinstance(some, dict) and _holds(some, tensor)), None)
        return None if chosen is None else _value(chosen.get("value"), tensor)
    numbers = [_number(some) for some in setting if not isinstance(some, list)]
    known = [number for number in numbers if number is not None]
    if not known or len(known) < len(setting):
        return None
    return sum((a + b) / 2 for a, b in itertools.pairwise(known)) / (len(known) - 1) if known[1:] else known[0]


def _holds(setting: Mapping[str, Any], tensor: str) -> bool:
    chosen = setting.get("filter")
    return chosen in (None, "", "*", "null") or (isinstance(chosen, str) and bool(tensor) and chosen in tensor)


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, str) and len(value) < 40 else math.nan
    except ValueError:
        return None
    return number if abs(number) <= LARGEST_WEIGHT else None


def _entries(value: object) -> Iterator[dict[str, Any]]:
    yield from (entry for entry in (value if isinstance(value, list) else []) if isinstance(entry, dict))


def _name(value: object) -> str:
    name = next(_model_name(value), None)
    return "" if name is None or name.problem else name.base.casefold()


def _model_name(value: object) -> Iterator[Name]:
    """Yield the model that mergekit writes as `org/model`, as `org/model+org/lora`, or as a mapping of these parts."""
    if isinstance(value, dict):
        value = value.get("path") or value.get("model")
        value = value.get("path") if isinstance(value, dict) else value
    yield from names_in(value.split("+", 1)[0] if isinstance(value, str) else value, "merge")
