"""YAML read as mappings, lists and plain text only, as yaml.BaseLoader does, within bounds: the files are untrusted.

libyaml parses the text where PyYAML has it, ten times as fast; a short text that it refuses is parsed again by PyYAML's
own parser, which knows more escapes and whose errors are clearer.
"""

from collections.abc import Iterator
from typing import Any

import yaml

LARGEST = 2**20  # characters of one file at most
DEEPEST = 100  # levels of lists and mappings inside each other; the time of the parsers is quadratic in them
MOST_NODES = 10**6  # values, each counted as often as aliases repeat it; a file without aliases cannot hold as many
SHORT = 2**16  # characters that PyYAML's own parser takes at most two seconds for
FAST: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # libyaml's loader where PyYAML has it


def load(text: str) -> Any:
    """Return the one document of a text as dict, list and str, None if there is none; raise yaml.YAMLError."""
    return next(iter(documents(text, most=1)), None)


def documents(text: str, most: int = MOST_NODES) -> list[Any]:
    """Return the documents of a text as dict, list and str; raise yaml.YAMLError, as for more than `most` of them."""
    try:
        return _Builder(text, FAST).build(most)
    except yaml.YAMLError:
        if FAST is yaml.BaseLoader or len(text) > SHORT:
            raise
    return _Builder(text, yaml.BaseLoader).build(most)


def events(text: str, loader: Any = FAST) -> Iterator[Any]:
    """Yield the events of the parser one by one; raise yaml.YAMLError as soon as a bound is exceeded."""
    if len(text) > LARGEST:
        raise yaml.YAMLError(f"it is larger than {LARGEST >> 20} MiB")
    depth = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise _problem(f"more than {DEEPEST} lists and mappings inside each other", event)
            yield event
    except (UnicodeEncodeError, ValueError, OverflowError) as error:
        raise yaml.YAMLError(f"it holds characters or numbers that YAML does not allow ({error})") from None


def problem(error: Exception) -> str:
    """Return the error in a text, in words and without its position."""
    return str(getattr(error, "problem", None) or error).partition("\n")[0]


def line(error: yaml.YAMLError) -> int | None:
    """Return the number of the line with the error, counted from 1; None where the parser gives none."""
    mark = getattr(error, "problem_mark", None)
    return mark.line + 1 if mark else None


def _problem(what: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=event.start_mark)


class _Builder:
    def __init__(self, text: str, loader: Any) -> None:
        self._events = events(text, loader)
        self._anchors: dict[str, tuple[Any, int] | None] = {}  # value and its size, None while it is being built

    def build(self, most: int) -> list[Any]:
        """Return the documents; none for an empty text."""
        built: list[Any] = []
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                if len(built) == most:
                    raise _problem("expected a single document in the stream", event)
            elif isinstance(event, yaml.NodeEvent):
                built.append(self._node(event)[0])
        return built

    def _node(self, event: Any) -> tuple[Any, int]:
        """Return the value that begins with an event, and how many values it holds; `events` bounds the recursion."""
        anchor = event.anchor
        if isinstance(event, yaml.AliasEvent):
            if anchor not in self._anchors:
                raise _problem(f"found undefined alias {anchor!r}", event)
            if (known := self._anchors[anchor]) is None:
                raise _problem("found unconstructable recursive node", event)
            return known
        if anchor in self._anchors:
            raise _problem(f"found duplicate anchor {anchor!r}", event)
        if anchor is not None:
            self._anchors[anchor] = None
        node: tuple[Any, int] = (event.value, 1) if isinstance(event, yaml.ScalarEvent) else self._collection(event)
        if anchor is not None:
            self._anchors[anchor] = node
        return node

    def _collection(self, start: Any) -> tuple[Any, int]:
        parts: list[Any] = []
        count = 1
        for event in self._events:
            if isinstance(event, yaml.CollectionEndEvent):
                break
            part, size = self._node(event)
            count += size
            if count > MOST_NODES:
                raise _problem(f"its aliases make more than {MOST_NODES} values", event)
            if isinstance(start, yaml.MappingStartEvent) and len(parts) % 2 == 0 and not isinstance(part, str):
                raise _problem("found unhashable key", event)
            parts.append(part)
        if isinstance(start, yaml.SequenceStartEvent):
            return parts, count
        return dict(zip(parts[::2], parts[1::2], strict=True)), count
