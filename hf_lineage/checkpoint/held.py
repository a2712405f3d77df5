"""Held: which ranges of a file on the Hub were asked for, so that no byte of it is asked for twice."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from concurrent.futures import Future
from operator import itemgetter
from typing import NamedTuple


class Range(NamedTuple):
    """Bytes of a file that were asked for."""

    start: int
    stop: int
    coming: Future[None]
    """Done when they are on this disk."""


class Held:
    """The ranges of one file that were asked for, none of which meets another."""

    def __init__(self) -> None:
        self._ranges: list[Range] = []

    def among(self, start: int, stop: int) -> list[Range]:
        """Return the ranges that hold some of these bytes, ascending."""
        first = bisect.bisect_right(self._ranges, start, key=itemgetter(1))
        return self._ranges[first : bisect.bisect_left(self._ranges, stop, key=itemgetter(0))]

    def missing(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield where those of these bytes begin and end that were not asked for."""
        for one in self.among(start, stop):
            if start < one.start:
                yield start, one.start
            start = one.stop
        if start < stop:
            yield start, stop

    def add(self, start: int, stop: int, coming: Future[None]) -> None:
        """Take note of bytes that were missing."""
        bisect.insort(self._ranges, Range(start, stop, coming), key=itemgetter(0))
