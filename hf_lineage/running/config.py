"""Configuration: every setting of a class of transformers, with those that a `config.json` leaves to the class."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

SIZES = re.compile("size|length|position|window|theta|base|token|pixels|seed|vocab|_id$|_val$|scaling")
"""Parts of the names of settings with large numbers of which no class makes a list."""
MOST = 2**16  # the most items that a class is asked to make a list of, such as the kinds of its layers
ENDLESS = ({"__float__": "Infinity"}, {"__float__": "-Infinity"})  # as transformers writes numbers
CONSUMED = frozenset({"rope_scaling", *transformers.GenerationConfig().to_dict()})  # which a class renames or lacks


def complete(kind: str, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return every setting that transformers gives a hostile configuration; None where it knows no such one."""
    if kind not in CONFIG_MAPPING or not all(number <= MOST for number in _counts("", config)):
        return None
    values = json.loads(
        json.dumps(config), object_hook=lambda value: float(value["__float__"]) if value in ENDLESS else value
    )
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()  # it speaks of settings that are odd
    try:
        settings = json.loads(json.dumps(CONFIG_MAPPING[kind](**values).to_dict(), default=str))
    except Exception:  # each class raises what it likes where values are wrong
        return None
    finally:
        transformers.logging.set_verbosity(level)
    return _with_unknown(settings, config)


def _counts(key: str, value: Any) -> Iterator[int]:
    """Yield the numbers of a configuration that its class may make a list of that long."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _counts(str(name), each)
    elif isinstance(value, list):
        for each in value:
            yield from _counts(key, each)
    elif isinstance(value, int) and not SIZES.search(key):
        yield value


def _with_unknown(settings: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in config.items():
        if key not in settings and key not in CONSUMED:
            settings[key] = value
        elif isinstance(value, Mapping) and isinstance(inner := settings.get(key), dict) and "config" in key:
            settings[key] = _with_unknown(inner, value)
    return settings
