"""Settings that a forger changes: all that some class has, switched, scaled, left out or taken from another class."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.conformance.models import TINY
from tests.forging.subject import DECADES, Case, Subject, mixed

LARGEST = 256
"""Of a number that may count something."""
UNTOUCHED = frozenset(
    {"architectures", "model_type", "auto_map", "transformers_weights", "quantization_config", "attribute_map"}
    | {"configuration_files", "transformers_version", "_name_or_path"}
)
"""Settings that say which model is loaded from where: tests of their own are about these."""


def set_to(subject: Subject, random: Random) -> Case:
    """A setting switched, scaled, left out or taken from another class."""
    case = mixed(subject, random)
    config = subject.pair.config
    places = [place for place in _places(config) if place[-1] not in UNTOUCHED]
    places += [place for place in places if place[-1] not in TINY] * 2  # what counts something hardly loads otherwise
    foreign = not random.randrange(6)
    key, others = random.choice(list(_settings().items()))
    place = (key,) if foreign else random.choice(places)
    value = random.choice(others) if foreign else functools.reduce(lambda within, part: within[part], place, config)
    new = _otherwise(value, random, _settings().get(place[-1], []))
    settings: dict[str, Any] = json.loads(json.dumps(config))
    functools.reduce(lambda within, part: within[part], place[:-1], settings)[place[-1]] = new
    top = place[0]
    said = f"{case.said}; {'.'.join(place)}: {new!r} for {'nothing' if foreign else repr(value)}"
    return Case(said, case.tensors, {top: settings[top]}, case.part)


def _places(config: dict[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in config.items():
        yield (*before, key)
        if isinstance(value, dict):
            yield from _places(value, (*before, key))


@functools.cache
def _settings() -> dict[str, list[Any]]:
    """Every setting that some class has, with the values that it has in some."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    found: dict[str, list[Any]] = defaultdict(list)
    for kind in CONFIG_MAPPING:
        try:
            said = CONFIG_MAPPING[kind]().to_dict()
        except Exception:  # some need packages that are not there
            continue
        for key, value in said.items():
            if (
                key not in UNTOUCHED
                and not isinstance(value, dict)
                and len(str(value)) < 200
                and value not in found[key]
            ):
                found[key].append(value)
    return dict(found)


def _otherwise(value: Any, random: Random, others: list[Any]) -> Any:
    """Another value of a setting."""
    if isinstance(value, bool):
        return random.choice([not value, not value, None])
    if isinstance(value, int):
        near = (0, 1, 2, -1, value - 1, value + 1, value // 2, 2 * value, 4 * value)
        return random.choice(
            [None, *(each for each in near if abs(each) <= max(LARGEST, 4 * min(abs(value), LARGEST)))]
        )
    if isinstance(value, float):
        return random.choice([0.0, -value, 1.0, None, *(value * 10.0**power for power in DECADES)])
    if isinstance(value, list) and value:
        place = random.randrange(len(value))
        one = [*value[:place], _otherwise(value[place], random, []), *value[place + 1 :]]
        return random.choice([one, [one[place]] * len(value), value[::-1], None])
    if value is None:
        small = [each for each in others if not isinstance(each, int) or abs(each) <= LARGEST]
        return random.choice([True, 0, 1, 1e-7, 1e7, *small])
    usual = [each for each in others if type(each) is type(value) and each != value]
    return random.choice([*usual, *usual, None])
