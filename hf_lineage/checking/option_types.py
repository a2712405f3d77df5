"""What the options of a user may be: text for a path, one name for several, and a message that names the option."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_lineage.errors import OptionError, printable
from hf_lineage.evidence import BUDGETS
from hf_lineage.signature import RECIPES, Recipe


@dataclass(frozen=True)
class Takes:
    """What an option may be."""

    words: str
    settle: Callable[[Any], Any]
    """Return the value as it is kept; raise TypeError or ValueError for one of another kind."""


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


def _number(value: Any) -> float:
    if isinstance(value, bool | str | bytes):
        raise TypeError
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _text(value: Any) -> str:
    path = os.fspath(value)
    if not isinstance(path, str):
        raise TypeError
    return path


def _names(value: Any) -> tuple[str, ...]:
    return (_text(value),) if isinstance(value, str | os.PathLike) else tuple(map(_text, value))


def _path(value: Any) -> Path:
    return Path(_text(value))


def _recipe(value: Any) -> Recipe:
    recipe = RECIPES.get(value) if isinstance(value, str) else value
    if not isinstance(recipe, Recipe):
        raise TypeError
    return recipe


def _budget(value: Any) -> str:
    if value not in BUDGETS:
        raise ValueError
    return _text(value)


def _or_none(takes: Takes) -> Takes:
    return Takes(f"{takes.words}, or None", lambda value: None if value is None else takes.settle(value))


WHOLE, NUMBER, FLAG = Takes("a whole number", _whole), Takes("a number", _number), Takes("True or False", _flag)
TEXT, PATH = Takes("text", _text), Takes("a path", _path)
NAMES = Takes("a name, or several", _names)
OPTIONS: Mapping[str, Takes] = {
    "recipe": Takes(f"a Recipe, or {', '.join(RECIPES)}", _recipe),
    "paths": NAMES,
    "readers": FLAG,
    "alpha": NUMBER,
    "permutations": WHOLE,
    "seed": WHOLE,
    "nulls": NAMES,
    "budget": _or_none(Takes(" or ".join(BUDGETS), _budget)),
    "min_share": NUMBER,
    "accept": NAMES,
    "evidence": TEXT,
    "order_seed": _or_none(WHOLE),
    "recompute": FLAG,
    "signatures": NAMES,
    "trust": _or_none(PATH),
    "published": FLAG,
    "max_memory": _or_none(TEXT),
    "local_hub": _or_none(PATH),
    "subfolder": TEXT,
    "file": _or_none(TEXT),
    "allow_pickle": FLAG,
    "as_class": _or_none(TEXT),
    "registry": _or_none(PATH),
}
"""By the name of the option."""


def settle(options: object) -> None:
    """Replace each option by the value that is kept of it; OptionError, which names it, for one of another kind."""
    for name, takes in OPTIONS.items():
        value = getattr(options, name)
        try:
            settled = takes.settle(value)
        except (TypeError, ValueError, OverflowError):
            raise OptionError(f"{name} must be {takes.words}, not {printable(repr(value), 100)}") from None
        object.__setattr__(options, name, settled)
