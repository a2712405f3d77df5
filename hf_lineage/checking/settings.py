"""Settings: what each option of a check may be, how it is written on the command line, and what it does.

Python may give text for a path and one name for several. The command line has options of its own for what is typed
often, and `--set KEY=VALUE` for every setting that has a help here. NumPy is not imported: `--help` reads the table.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_lineage.errors import OptionError, printable
from hf_lineage.evidence import BUDGETS
from hf_lineage.signature import PARAMETERS


@dataclass(frozen=True)
class ValueKind:
    """Kind of value that a setting takes."""

    words: str
    settle: Callable[[Any], Any]
    """Return the value as it is kept; raise TypeError, ValueError or LookupError for one of another kind."""
    typed: str = ""
    """Words for what is typed behind the equals sign."""
    read: Callable[[str], Any] = str
    """Return the value that is typed; raise ValueError or LookupError for one of another kind."""
    metavar: str = "TEXT"


@dataclass(frozen=True)
class Setting:
    """One setting of a check."""

    kind: ValueKind
    help: str = ""
    """Sentence that says what it does; empty where the command line has an option of its own, which says it."""


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


def _recipe(value: Any) -> Any:
    from hf_lineage.signature import RECIPES, Recipe

    recipe = RECIPES.get(value) if isinstance(value, str) else value
    if not isinstance(recipe, Recipe):
        raise TypeError
    return recipe


def _or_none(kind: ValueKind) -> ValueKind:
    def settle(value: Any) -> Any:
        return None if value is None else kind.settle(value)

    return ValueKind(f"{kind.words}, or None", settle, kind.typed, kind.read, kind.metavar)


def _probes(text: str) -> int | None:
    return None if text == EXACT else int(text)


def _one_of(words: Iterable[str]) -> Callable[[str], str]:
    return {word: word for word in words}.__getitem__


EXACT = "exact"
"""Word that is typed for probes where the whole product is computed."""
WHOLE = ValueKind("a whole number", _whole, "a whole number", int, "N")
NUMBER = ValueKind("a number", _number, "a number", float, "NUMBER")
FLAG = ValueKind("True or False", _flag, "yes or no", {"no": False, "yes": True}.__getitem__, "yes|no")
TEXT, PATH = ValueKind("text", _text, "text"), ValueKind("a path", _path, "a path", metavar="FILE")
NAMES = ValueKind("a name, or several", _names)
RECIPE = ValueKind(
    f"a Recipe, or {', '.join(PARAMETERS)}", _recipe, " or ".join(PARAMETERS), _one_of(PARAMETERS), "|".join(PARAMETERS)
)
SIZE = ValueKind("text", _text, "a size", metavar="SIZE")
SETTINGS: Mapping[str, Setting] = {
    "recipe": Setting(RECIPE, "How weights become numbers: robust, or paper (the published method)."),
    "paths": Setting(NAMES),
    "alpha": Setting(NUMBER, "Significance level of the test."),
    "permutations": Setting(
        WHOLE, "Least number of permutations to draw first; 20 times as many follow if the p-value is near alpha."
    ),
    "seed": Setting(WHOLE, "Seed of the permutations."),
    "nulls": Setting(NAMES),
    "budget": Setting(_or_none(ValueKind(" or ".join(BUDGETS), _one_of(BUDGETS)))),
    "min_share": Setting(NUMBER, "Verify a claim only if more than this share of the model is inherited."),
    "accept": Setting(NAMES),
    "order_seed": Setting(
        _or_none(WHOLE),
        "Seed of the order of layers and of the sample of hidden units; by default a new one for each run.",
    ),
    "recompute": Setting(FLAG, "Read the weights even if their signature is cached."),
    "max_memory": Setting(_or_none(SIZE), "The most memory to use on each device, such as 8GiB."),
    "local_hub": Setting(_or_none(PATH)),
    "subfolder": Setting(TEXT),
    "file": Setting(_or_none(TEXT)),
    "allow_pickle": Setting(FLAG),
    "as_class": Setting(_or_none(TEXT)),
    "run": Setting(FLAG),
    "strict": Setting(FLAG),
    "registry": Setting(_or_none(PATH)),
}
"""Field of Options -> its setting."""
TYPED: Mapping[str, Setting] = {
    "probes": Setting(
        ValueKind("", _probes, f"a whole number, or {EXACT}", _probes, f"K|{EXACT}"),
        "Number of random probe vectors: more make the sketch more exact and larger; exact computes the whole "
        "product of every branch.",
    ),
    **{name.replace("_", "-"): setting for name, setting in SETTINGS.items() if setting.help},
}
"""Key of `--set` -> its setting. `probes` is no option of its own in Python: it is a field of the recipe."""


def settle(options: object) -> None:
    """Replace each option by the value that is kept of it; OptionError, which names it, for one of another kind."""
    for name, setting in SETTINGS.items():
        value = getattr(options, name)
        try:
            settled = setting.kind.settle(value)
        except (TypeError, ValueError, LookupError, OverflowError):
            raise OptionError(f"{name} must be {setting.kind.words}, not {printable(repr(value), 100)}") from None
        object.__setattr__(options, name, settled)


def read_pairs(pairs: Iterable[str], keys: Iterable[str]) -> dict[str, Any]:
    """Return the values of KEY=VALUE pairs by the names of the options, of which only some keys are allowed.

    The last pair of a key counts. Raise OptionError for what cannot be read.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or key not in keys:
            raise OptionError(
                f"{printable(repr(pair), 100)} is not KEY=VALUE; the keys are {', '.join(keys)}; help shows them"
            )
        kind, name = TYPED[key].kind, key.replace("-", "_")
        try:
            values[name] = kind.read(text)
        except (ValueError, LookupError, OverflowError):
            raise OptionError(f"{key} must be {kind.typed}, not {printable(repr(text), 100)}") from None
    return values
