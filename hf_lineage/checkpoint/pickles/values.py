"""Pickles of plain values and tensors, read step by step; nothing that a pickle names is imported or called.

Only the instructions that `torch.save` writes for a mapping of tensors are followed; what a pickle names stays a name.
"""

import io
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MOST_STEPS = 2**23  # instructions: those of a model of three hundred thousand tensors
MARK = object()  # on the stack below the items of a tuple, a list or a mapping
NEW: dict[str, Callable[[Any], Any]] = {"EMPTY_TUPLE": lambda _: (), "EMPTY_LIST": lambda _: [], "MARK": lambda _: MARK}
NEW |= {"NONE": lambda _: None, "NEWTRUE": lambda _: True, "NEWFALSE": lambda _: False, "EMPTY_DICT": lambda _: {}}
NEW |= {"GLOBAL": lambda text: Name(text.replace(" ", "."))}
PLAIN = frozenset(["BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"])
MEMORY = frozenset(["BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET"])
COUNTS = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "STACK_GLOBAL": 2, "BINPERSID": 1}  # step -> the items that it takes
COUNTS |= {"SETITEM": 2, "APPEND": 1, "REDUCE": 2, "BUILD": 2}
MARKED = frozenset({"TUPLE", "SETITEMS", "APPENDS"})  # take everything above the last mark
KNOWN = NEW.keys() | PLAIN | MEMORY | COUNTS.keys() | MARKED | {"PROTO", "FRAME"}


class UnknownError(ValueError):
    """A pickle that would do more than make plain values and tensors; the text is a phrase that follows its name."""


class DamagedError(ValueError):
    """A file that is damaged; the text says what is wrong."""


@dataclass(frozen=True)
class Name:
    """The name of an object that a pickle refers to, such as a class."""

    text: str


@dataclass(frozen=True)
class Persistent:
    """The key of an object that is stored outside of the pickle."""

    key: Any


@dataclass(frozen=True)
class Call:
    """The result of a known call, which was not made."""

    name: str
    arguments: tuple[Any, ...]


def read_pickle(stream: io.BytesIO, calls: frozenset[str]) -> Any:
    """Return the value of one pickle, and leave the stream behind it; those of `calls` are values."""
    try:
        return _follow(stream, calls)
    except (UnknownError, DamagedError):
        raise
    except (ValueError, OverflowError, LookupError):
        raise DamagedError("the end of its pickle cannot be read") from None


def _follow(stream: io.BytesIO, calls: frozenset[str]) -> Any:
    stack: list[Any] = []
    memory: dict[Any, Any] = {}
    for number, (code, argument, _) in enumerate(pickletools.genops(stream)):
        if code.name == "STOP":
            break
        if number > MOST_STEPS or code.name not in KNOWN:
            raise UnknownError(f"holds more than tensors and plain values ({code.name})")
        if code.name in PLAIN:
            stack.append(argument)
        elif code.name in MEMORY:
            place = len(memory) if code.name == "MEMOIZE" else argument
            if code.name.endswith("GET"):
                stack.append(memory[place])
            else:
                memory[place] = stack[-1]
        elif code.name in COUNTS:
            items = [stack.pop() for _ in range(COUNTS[code.name])][::-1]
            _combine(code.name, items, stack, calls)
        elif code.name in MARKED:
            items = []
            while (item := stack.pop()) is not MARK:
                items.append(item)
            _combine(code.name, items[::-1], stack, calls)
        elif code.name in NEW:
            stack.append(NEW[code.name](argument))
    return stack.pop()


def _combine(step: str, items: list[Any], stack: list[Any], calls: frozenset[str]) -> None:
    """Make one value of some items, or put them into the list or the mapping that is the last on the stack."""
    match step, items:
        case (("TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3"), _):
            stack.append(tuple(items))
        case "STACK_GLOBAL", [str(module), str(name)]:
            stack.append(Name(f"{module}.{name}"))
        case "BINPERSID", [key]:
            stack.append(Persistent(key))
        case (("SETITEM" | "SETITEMS"), _):  # keys and values, one after the other
            target = stack[-1]
            if not isinstance(target, dict) or len(items) % 2 or not all(type(key) is str for key in items[::2]):
                raise UnknownError("holds a mapping whose keys are not texts")
            target.update(zip(items[::2], items[1::2], strict=True))
        case (("APPEND" | "APPENDS"), _) if isinstance(stack[-1], list):
            stack[-1].extend(items)
        case "REDUCE", [Name(text="collections.OrderedDict"), ()]:
            stack.append({})
        case "REDUCE", [Name(text=called), tuple(arguments)]:
            if called not in calls:
                raise UnknownError(f"would call {called[:200]}")
            stack.append(Call(called, arguments))
        case "BUILD", [target, state]:  # what torch notes beside the items of a mapping is left out: versions
            if not isinstance(target, dict) or not isinstance(state, dict) or state.keys() - {"_metadata"}:
                raise UnknownError("would change more than a mapping")
            stack.append(target)
        case _:
            raise DamagedError("its pickle cannot be read")
