"""A Protocol Buffers message on the disk, walked field by field within bounds; bytes are read when they are asked for.

The encoding is that of https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from hf_lineage.checkpoint.foreign_form import HeaderError, decode_text

MOST_FIELDS, LONGEST_TEXT, LARGEST_TEXT = 2**21, 2**12, 2**26
"""Fields at most, and bytes of one text and of all of them together."""
VARINT, BYTES = 0, 2
FIXED = {1: 8, 5: 4}
"""The number of a wire type of fixed length -> its bytes."""


class Span(NamedTuple):
    """A range of bytes of the file."""

    start: int
    length: int

    @property
    def stop(self) -> int:
        """The position behind them."""
        return self.start + self.length


Value = int | Span
"""A whole number, or the place of bytes: a float, a text, a list of numbers or a message of its own."""


def signed(number: int) -> int:
    """Return a number of 64 bits as the signed one that it encodes."""
    return number - 2**64 if number >= 2**63 else number


class Walker:
    """Walks over the messages of one file; raises HeaderError, or OSError if it cannot be read."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._fields = self._text = 0
        self.whole = Span(0, size)
        """The outermost message."""

    def fields(self, message: Value) -> Iterator[tuple[int, Value]]:
        """Yield the number and the value of every field of a message."""
        position, stop = _place(message).start, _place(message).stop
        while position < stop:
            self._fields += 1
            if self._fields > MOST_FIELDS:
                raise HeaderError(f"has more than {MOST_FIELDS} fields; do not trust it")
            key, position = self._varint(position, stop)
            number, wire = key >> 3, key & 7
            value: Value
            if wire == VARINT:
                value, position = self._varint(position, stop)
            elif wire == BYTES:
                length, start = self._varint(position, stop)
                value, position = Span(start, length), start + length
            elif wire in FIXED:
                value, position = Span(position, FIXED[wire]), position + FIXED[wire]
            else:
                raise HeaderError("is damaged or of another format; have it saved again")
            if position > stop:
                raise HeaderError("is truncated or damaged: a field is longer than its message; download it again")
            yield number, value

    def numbers(self, value: Value, most: int) -> list[int]:
        """Return the whole numbers of a field, which may be one or a packed list; of a long list the first."""
        if not isinstance(value, Span):
            return [signed(value)][:most]
        numbers: list[int] = []
        position = value.start
        while position < value.stop and len(numbers) < most:
            number, position = self._varint(position, value.stop)
            numbers.append(signed(number))
        return numbers

    def single(self, value: Value) -> float:
        """Return a float32."""
        content = self.content(value)
        if len(content) != struct.calcsize("<f"):
            raise HeaderError("is damaged: a number has a wrong length; have it saved again")
        return float(struct.unpack("<f", content)[0])

    def text(self, value: Value) -> str:
        """Return a text."""
        return decode_text(self.content(value))

    def content(self, value: Value) -> bytes:
        """Return the bytes of a short field."""
        span = _place(value)
        self._text += span.length
        if span.length > LONGEST_TEXT or self._text > LARGEST_TEXT:
            raise HeaderError(f"has a text of {span.length} bytes, or too many of them; do not trust it")
        return self._read(span)

    def _read(self, span: Span) -> bytes:
        self._stream.seek(span.start)
        return self._stream.read(span.length)

    def _varint(self, position: int, stop: int) -> tuple[int, int]:
        """Return a number of seven bits a byte, the least first, and the position behind it."""
        value = 0
        for count, byte in enumerate(self._read(Span(position, min(10, stop - position)))):
            value |= (byte & 127) << 7 * count
            if byte < 128:
                return value & (2**64 - 1), position + count + 1
        raise HeaderError("is truncated or damaged: a number does not end; download it again")


def _place(value: Value) -> Span:
    if not isinstance(value, Span):
        raise HeaderError("is damaged: it has a number in place of a text or a message; have it saved again")
    return value
