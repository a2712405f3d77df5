"""Options: the kind, bounds, help and spelling of each, in one table; and the time that files state."""

import datetime
import math
import operator
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hf_lineage.architecture.paths import PATHS
from hf_lineage.errors import OptionError, printable
from hf_lineage.evidence.criteria import ACCEPTABLE, BUDGETS
from hf_lineage.signature.recipe_table import PARAMETERS


@dataclass(frozen=True)
class ValueKind:
    """Kind of value that an option takes."""

    words: str
    settle: Callable[[Any], Any]  # the value as it is kept; TypeError, ValueError or LookupError for another
    read: Callable[[str], Any] = str  # what is typed as a value; ValueError or LookupError
    choices: tuple[str, ...] = ()
    least: float = -math.inf
    most: float = math.inf


@dataclass(frozen=True)
class Setting:
    """One option of a check: what it may be, and what it is on the command line."""

    kind: ValueKind
    help: str = ""  # sentence that says what it does; empty for an option of Python alone
    metavar: str | None = None
    flag: str = ""  # name on the command line, where it is another one than in Python
    multiple: bool = False


def _settler(convert: Callable[[Any], Any], refuse: Any = (), require: Any = object) -> Callable[[Any], Any]:
    """Return what converts a value; it raises TypeError for one of a kind that is refused, or not of the required."""

    def settle(value: Any) -> Any:
        if isinstance(value, refuse) or not isinstance(value, require):
            raise TypeError
        return convert(value)

    return settle


def _recipe(value: Any) -> Any:
    from hf_lineage.signature.recipe import RECIPES, Recipe

    recipe = RECIPES.get(value) if isinstance(value, str) else value
    if not isinstance(recipe, Recipe):
        raise TypeError
    return recipe


FLAG = ValueKind("True or False", _settler(bool, require=bool))
TEXT = ValueKind("text", _settler(os.fsdecode, refuse=bytes))
PATH = ValueKind("a path", lambda value: Path(TEXT.settle(value)))
WHOLE = ValueKind("a whole number", _settler(operator.index, refuse=bool), int)
NUMBER = ValueKind("a number", _settler(float, refuse=(bool, str, bytes)), float)
NAMES = ValueKind(
    "a name, or several",
    lambda value: tuple(map(TEXT.settle, (value,) if isinstance(value, str | os.PathLike) else value)),
)
SETTINGS: Mapping[str, Setting] = {  # field of Options -> its setting, in the order of `--help`; those of Python last
    "file": Setting(
        TEXT,
        "The GGUF or ONNX file of MODEL, or of B, to read; all: each GGUF file. By default the most precise by name.",
        "NAME",
    ),
    "allow_pickle": Setting(FLAG, "Also read tensors from pickles, of bases too; nothing in them is run."),
    "as_class": Setting(
        TEXT,
        "If the registry does not list the class of a model, read it as this class, or by the factorizations in this "
        "folder, which you wrote: ./DIR.",
        "CLASS",
        flag="--as",
    ),
    "paths": Setting(
        replace(NAMES, read=lambda text: tuple(map(str.strip, text.split(",")))),
        f"Paths through a layer to compare, separated by commas: {', '.join(PATHS)}; usual, the MLP and values of "
        "attention; or all.",
        "LIST",
    ),
    "local_hub": Setting(
        PATH, "A folder with org/name folders; models are searched there first, then on the Hub.", "DIR"
    ),
    "recompute": Setting(FLAG, "Read the weights even if their signature is cached.", flag="--no-cache"),
    "budget": Setting(
        ValueKind(" or ".join(BUDGETS), {word: word for word in BUDGETS}.__getitem__, choices=BUDGETS),
        "quick stops reading layers once the verdict is clear, full reads all; by default quick, unless --null needs "
        "all layers.",
    ),
    "alpha": Setting(replace(NUMBER, least=1e-6, most=0.5), "Significance level of the tests of one claim.", "NUMBER"),
    "seed": Setting(
        replace(WHOLE, least=0, most=2**64 - 1),
        "Seed of all that is drawn: permutations, layers, units. By default a new one, which the report names.",
        "N",
    ),
    "run": Setting(
        FLAG,
        "Run the model on a text, never code of its own, and verify nothing if it does not use what it has in common "
        "with the base; needs the extra `run`.",
    ),
    "strict": Setting(
        FLAG,
        "Hold every number of every tensor against the base's: whether MODEL is its quantization, or its numbers, and "
        "nothing else; 3 if not.",
    ),
    "accept": Setting(
        replace(NAMES, choices=ACCEPTABLE),
        "Also return 0 for a claim that is RELATED with this code; repeatable.",
        multiple=True,
    ),
    "nulls": Setting(
        NAMES,
        "Also test the score against this independent model, or published null; repeatable.",
        "MODEL",
        flag="--null",
        multiple=True,
    ),
    "recipe": Setting(ValueKind(f"a Recipe, or {', '.join(PARAMETERS)}", _recipe)),
    "permutations": Setting(replace(WHOLE, least=1, most=1_000_000)),
    "min_share": Setting(replace(NUMBER, least=0.01, most=0.99)),
    "subfolder": Setting(TEXT),
    "registry": Setting(PATH),
    "max_memory": Setting(TEXT),
}


def settle(options: object) -> None:
    """Replace each option by the value that is kept of it; OptionError for another kind, or one out of range."""
    for name, setting in SETTINGS.items():
        value, kind = getattr(options, name), setting.kind
        usually_none = getattr(type(options), name, "") is None
        try:
            settled = None if usually_none and value is None else kind.settle(value)
        except (TypeError, ValueError, LookupError, OverflowError):
            words = f"{kind.words}, or None" if usually_none else kind.words
            raise OptionError(f"{name} must be {words}, not {printable(repr(value), 100)}") from None
        if isinstance(settled, int | float) and not kind.least <= settled <= kind.most:
            raise OptionError(f"{name} must lie between {kind.least:.7g} and {kind.most:.7g}, not {settled:.7g}")
        if isinstance(settled, tuple) and kind.choices and not {*settled} <= {*kind.choices}:
            wrong = next(word for word in settled if word not in kind.choices)
            raise OptionError(f"{name} must be one of {', '.join(kind.choices)}, not {printable(wrong, 100)}")
        object.__setattr__(options, name, settled)


MONTHS = (  # in English whatever the language of the machine
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def now() -> datetime.datetime:
    """Return the time in UTC."""
    return datetime.datetime.now(datetime.UTC)


def moment(measured: datetime.datetime) -> datetime.datetime:
    """Return the time that a format states: of SOURCE_DATE_EPOCH (reproducible-builds.org), else `measured`."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        if not epoch:
            return measured
        return datetime.datetime.fromtimestamp(int(epoch), datetime.UTC)
    except (ValueError, OverflowError, OSError):
        raise OptionError(f"SOURCE_DATE_EPOCH must be seconds since 1970, not {epoch}") from None


def stamp(time: datetime.datetime) -> str:
    """Return a time for programs (RFC 3339), in UTC.

    >>> stamp(datetime.datetime(2026, 11, 22, 9, 30, tzinfo=datetime.UTC))
    '2026-11-22T09:30:00Z'
    """
    return f"{time.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def in_words(time: datetime.datetime) -> str:
    """Return a time for people, in UTC.

    >>> in_words(datetime.datetime(2026, 11, 2, 9, 30, tzinfo=datetime.UTC))
    '2 November 2026, 09:30 UTC'
    """
    there = time.astimezone(datetime.UTC)
    return f"{there.day} {MONTHS[there.month - 1]} {there:%Y, %H:%M} UTC"
