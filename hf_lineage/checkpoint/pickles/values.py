"""Pickles of plain values and tensors, read step by step; nothing that a pickle names is imported or called.

Only the instructions that `torch.save` writes for a mapping of tensors are followed; what a pickle names stays a name.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_STEPS = 2**23  # instructions: those of a model of three hundred thousand tensors
MARK = object()  # on the stack below the items of a tuple, a list or a mapping
NEW: dict[str, Callable[[], Any]] = {"EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict, "MARK": lambda: MARK}
NEW |= {"NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False}
PLAIN = ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE")


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


@dataclass
class _Machine:
    calls: frozenset[str]
    stack: list[Any] = field(default_factory=list)
    memory: dict[int, Any] = field(default_factory=dict)

    def pop_marked(self) -> list[Any]:
        """Take everything above the last mark, and the mark."""
        items: list[Any] = []
        while (item := self.stack.pop()) is not MARK:
            items.append(item)
        return items[::-1]

    def last(self, count: int) -> list[Any]:
        """Take so many items."""
        return [self.stack.pop() for _ in range(count)][::-1]

    def name(self) -> None:
        """Put the name of an object in the place of its module and its name there."""
        words = self.last(2)
        if not all(isinstance(word, str) for word in words):
            raise DamagedError("its pickle cannot be read")
        self.stack.append(Name(".".join(words)))

    def store(self, place: int) -> None:
        self.memory[place] = self.stack[-1]

    def insert(self, items: list[Any]) -> None:
        """Put keys and values, one after the other, into the mapping on the stack."""
        target = self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2 or not all(type(key) is str for key in items[::2]):
            raise UnknownError("holds a mapping whose keys are not texts")
        target.update(zip(items[::2], items[1::2], strict=True))

    def extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise DamagedError("its pickle cannot be read")
        self.stack[-1].extend(items)

    def call(self) -> None:
        called, arguments = self.last(2)
        if not isinstance(called, Name) or not isinstance(arguments, tuple):
            raise DamagedError("its pickle cannot be read")
        if called.text == "collections.OrderedDict" and not arguments:
            self.stack.append({})
        elif called.text in self.calls:
            self.stack.append(Call(called.text, arguments))
        else:
            raise UnknownError(f"would call {called.text[:200]}")

    def build(self) -> None:
        """Leave out what torch notes beside the items of a mapping: the versions of its modules."""
        target, state = self.last(2)
        if not isinstance(target, dict) or not isinstance(state, dict) or state.keys() - {"_metadata"}:
            raise UnknownError("would change more than a mapping")
        self.stack.append(target)


Step = Callable[[_Machine, Any], object]


def _push(make: Callable[[], Any]) -> Step:
    return lambda machine, _: machine.stack.append(make())


STEPS: Mapping[str, Step] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda _machine, _: None),
    **{name: _push(make) for name, make in NEW.items()},
    **dict.fromkeys(PLAIN, lambda machine, value: machine.stack.append(value)),
    "TUPLE1": lambda machine, _: machine.stack.append(tuple(machine.last(1))),
    "TUPLE2": lambda machine, _: machine.stack.append(tuple(machine.last(2))),
    "TUPLE3": lambda machine, _: machine.stack.append(tuple(machine.last(3))),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.pop_marked())),
    "GLOBAL": lambda machine, text: machine.stack.append(Name(text.replace(" ", "."))),
    "STACK_GLOBAL": lambda machine, _: machine.name(),
    "BINPERSID": lambda machine, _: machine.stack.append(Persistent(machine.stack.pop())),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), lambda machine, place: machine.store(place)),
    "MEMOIZE": lambda machine, _: machine.store(len(machine.memory)),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda machine, place: machine.stack.append(machine.memory[place])),
    "SETITEM": lambda machine, _: machine.insert(machine.last(2)),
    "SETITEMS": lambda machine, _: machine.insert(machine.pop_marked()),
    "APPEND": lambda machine, _: machine.extend(machine.last(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.pop_marked()),
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.build(),
}


def read_pickle(stream: io.BytesIO, calls: frozenset[str]) -> Any:
    """Return the value of one pickle, and leave the stream behind it; those of `calls` are values."""
    try:
        return _follow(stream, _Machine(calls))
    except (UnknownError, DamagedError):
        raise
    except (ValueError, OverflowError, LookupError):
        raise DamagedError("the end of its pickle cannot be read") from None


def _follow(stream: io.BytesIO, machine: _Machine) -> Any:
    for number, (code, argument, _) in enumerate(pickletools.genops(stream)):
        if code.name == "STOP":
            break
        if number > MOST_STEPS or code.name not in STEPS:
            raise UnknownError(f"holds more than tensors and plain values ({code.name})")
        STEPS[code.name](machine, argument)
    return machine.stack.pop()
