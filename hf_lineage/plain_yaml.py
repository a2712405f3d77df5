"""YAML as mappings, lists and plain text, within bounds: whoever wrote a file can ask for nothing more.

It gives what `yaml.load(text, Loader=yaml.BaseLoader)` gives. Tags make nothing, depth is bounded, and so is how much
there is once every alias is written out. libyaml reads it where PyYAML has it, ten times as fast; a short text that
libyaml refuses is left to PyYAML's own parser, which knows more escapes and says more clearly what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

LARGEST = 2**20
"""Bytes, for each file that is read."""
DEEPEST = 100
"""Lists and mappings inside each other; the parsers take time quadratic in them."""
MOST_NODES = 10**6
"""Values, each counted as often as aliases repeat it: more than fit into a file without aliases."""

SHORT = 2**16
"""Characters that PyYAML's own parser takes at most two seconds for."""

FAST: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""libyaml's loader where PyYAML has it."""
_UNREADABLE = (UnicodeEncodeError, ValueError, OverflowError)
"""What the parsers raise for characters that are none and for numbers without end."""


def load(text: str) -> Any:
    """Return the one document of a text as dict, list and str, None if there is none; raise yaml.YAMLError."""
    _bounded(text)
    try:
        return _Building(text, FAST).built()
    except yaml.YAMLError:
        if FAST is yaml.BaseLoader or len(text) > SHORT:
            raise
    return _Building(text, yaml.BaseLoader).built()


def events(text: str, loader: Any = FAST) -> Iterator[Any]:
    """Yield what the parser meets, one by one; raise yaml.YAMLError as soon as a bound is exceeded."""
    _bounded(text)
    depth = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise _problem(f"more than {DEEPEST} lists and mappings inside each other", event)
            yield event
    except _UNREADABLE as error:
        raise yaml.YAMLError(f"it has characters or numbers that YAML cannot have ({error})") from None


def problem(error: Exception) -> str:
    """Return in words what is wrong with a text, without where."""
    return str(getattr(error, "problem", None) or error).partition("\n")[0]


def line(error: yaml.YAMLError) -> int | None:
    """Return in which line something is wrong, counted from 1; None where nobody can say."""
    mark = getattr(error, "problem_mark", None)
    return mark.line + 1 if mark else None


def _bounded(text: str) -> None:
    if len(text) > LARGEST:
        raise yaml.YAMLError(f"it is larger than {LARGEST >> 20} MiB")


def _problem(what: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=event.start_mark)


class _Building:
    """One document, built from the events of its text."""

    def __init__(self, text: str, loader: Any) -> None:
        self._events = events(text, loader)
        self._known: dict[str, tuple[Any, int] | None] = {}
        """By anchor what it names, with the number of its values; None while that is not whole."""

    def built(self) -> Any:
        """Return the document, None for an empty text."""
        document, documents = None, 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _problem("expected a single document in the stream", event)
            elif isinstance(event, yaml.NodeEvent):
                document, _ = self._node(event)
        return document

    def _node(self, event: Any) -> tuple[Any, int]:
        """What begins with an event, and how many values it has; the depth is bounded, and so is the recursion."""
        if isinstance(event, yaml.AliasEvent):
            return self._named(event)
        if event.anchor is not None:
            if event.anchor in self._known:
                raise _problem(f"found duplicate anchor {event.anchor!r}", event)
            self._known[event.anchor] = None
        found: tuple[Any, int] = (event.value, 1) if isinstance(event, yaml.ScalarEvent) else self._collection(event)
        if event.anchor is not None:
            self._known[event.anchor] = found
        return found

    def _named(self, event: Any) -> tuple[Any, int]:
        if event.anchor not in self._known:
            raise _problem(f"found undefined alias {event.anchor!r}", event)
        found = self._known[event.anchor]
        if found is None:
            raise _problem("found unconstructable recursive node", event)
        return found

    def _collection(self, start: Any) -> tuple[Any, int]:
        parts: list[Any] = []
        count = 1
        for event in self._events:
            if isinstance(event, yaml.CollectionEndEvent):
                break
            part, size = self._node(event)
            count += size
            if count > MOST_NODES:
                raise _problem(f"aliases make more than {MOST_NODES} values of it", event)
            if isinstance(start, yaml.MappingStartEvent) and len(parts) % 2 == 0 and not isinstance(part, str):
                raise _problem("found unhashable key", event)
            parts.append(part)
        if isinstance(start, yaml.SequenceStartEvent):
            return parts, count
        return dict(zip(parts[::2], parts[1::2], strict=True)), count
