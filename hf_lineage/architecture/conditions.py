"""Conditions: whether a class builds a tensor, by the values in `config.json` and by the number of the layer.

A condition is data, a list that begins with a question; as `config.json` may hold anything, the answer may be unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hf_lineage.architecture.registry import setting

Condition = Sequence[Any]
"""`[question, keys of config.json, default, argument]`, or one of `["all", ...]`, `["any", ...]`, `["not", condition]`;
or `["listed", keys, condition, condition]`; `["first"]`; `["cycle", [keys, default], [keys, default]]` with a period
and an offset; or `["maybe"]` where the rule is unknown."""
OF_NUMBERS = ("above", "from", "to", "last", "every")
OF_LISTS = ("word", "entry")


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
            return (layer - offset) % period == 0 if _number(period) and _number(offset) and period >= 1 else None
        case [kind, keys, default, *argument]:
            return _answer(kind, value_of(config, keys, default), argument[0] if argument else None, layer, depth)
    raise ValueError(f"{condition} is no condition")


def _answer(kind: str, value: Any, argument: Any, layer: int, depth: int) -> bool | None:
    """Return the answer to a question about a value, a layer and the depth; None where the value does not fit it.

    `every`: the number of the layer and the argument add up to a multiple of the value. `holds`: the list has the
    number of the layer. `word` and `entry`: the entry of the list for the layer is an argument, or counts as true.
    """
    if (kind in OF_NUMBERS and not _number(value)) or (kind in OF_LISTS and not (isinstance(value, list) and value)):
        return None
    match kind:
        case "true":
            return bool(value)
        case "is":
            return value in argument
        case "above":
            return bool(value > argument)
        case "from":
            return bool(layer >= value)
        case "to":
            return bool(layer <= (value if value >= 0 else depth + value))
        case "last":
            return bool(layer >= depth - value)
        case "every":
            return bool(value >= 1 and (layer + argument) % value == 0)
        case "word":
            return value[layer % len(value)] in argument
        case "entry":
            return bool(value[layer % len(value)])
        case _:
            return layer in (value or ()) if value is None or isinstance(value, list) else None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
