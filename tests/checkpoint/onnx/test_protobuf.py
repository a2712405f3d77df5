"""A Protocol Buffers message: what the encoding says is read, and what breaks it, or is too much, is one clear line."""

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_lineage.checkpoint.foreign_form import HeaderError
from hf_lineage.checkpoint.onnx import protobuf
from hf_lineage.checkpoint.onnx.protobuf import Span, Walker, signed
from tests.properties import cases


def varint(number):
    """A number of seven bits a byte, the least first."""
    number &= 2**64 - 1
    content = bytearray()
    while number > 127:
        content.append(number & 127 | 128)
        number >>= 7
    return bytes([*content, number])


def field(number, value):
    """A field that holds a whole number, bytes or a float32."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def walker(content):
    return Walker(io.BytesIO(content), len(content))


def fields(content):
    reader = walker(content)
    return [
        (number, reader.content(value) if isinstance(value, Span) else value)
        for number, value in reader.fields(reader.whole)
    ]


def test_numbers_texts_and_what_has_a_fixed_length_are_told_apart():
    content = field(1, 150) + field(2, b"testing") + varint(3 << 3 | 5) + b"\0\0\x80?" + varint(4 << 3 | 1) + bytes(8)
    assert fields(content) == [(1, 150), (2, b"testing"), (3, b"\0\0\x80?"), (4, bytes(8))]
    reader = walker(content)
    (single,) = (value for number, value in reader.fields(reader.whole) if number == 3)
    assert reader.single(single) == 1.0


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_lists_of_numbers_are_read_back(numbers):
    packed = walker(b"".join(map(varint, numbers)))
    assert packed.numbers(packed.whole, 20) == numbers
    assert packed.numbers(packed.whole, 3) == numbers[:3]
    assert [walker(b"").numbers(number & (2**64 - 1), 1) for number in numbers] == [[number] for number in numbers]
    assert [signed(number & (2**64 - 1)) for number in numbers] == numbers


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80" * 11, "a number does not end"),
        (b"\x08", "a number does not end"),
        (varint(2 << 3 | 2) + varint(5) + b"four", "a field is longer than its message;"),
        (varint(2 << 3 | 2) + varint(2**63), "a field is longer than its message;"),
        (varint(1 << 3 | 5) + b"abc", "a field is longer than its message;"),
        (varint(1 << 3 | 3), "of another format"),
        (varint(1 << 3 | 7), "of another format"),
    ],
)
def test_a_broken_message_is_one_clear_line(content, message):
    with pytest.raises(HeaderError, match=message):
        fields(content)


def test_a_number_is_no_text_and_a_text_no_number_of_four_bytes():
    for read in (walker(b"").text, walker(b"").content, lambda value: list(walker(b"").fields(value))):
        with pytest.raises(HeaderError, match="a number in place of a text or a message;"):
            read(7)
    with pytest.raises(HeaderError, match="a number has a wrong length;"):
        walker(b"abc").single(Span(0, 3))


def test_there_are_bounds_on_texts_and_fields(monkeypatch):
    long = walker(bytes(protobuf.LONGEST_TEXT + 1))
    with pytest.raises(HeaderError, match="has a text of 4097 bytes"):
        long.text(long.whole)
    monkeypatch.setattr(protobuf, "MOST_FIELDS", 3)
    with pytest.raises(HeaderError, match="more than 3 fields"):
        fields(field(1, 0) * 4)
    monkeypatch.setattr(protobuf, "LARGEST_TEXT", 5)
    with pytest.raises(HeaderError, match="or too many of them"):
        fields(field(1, b"abc") * 2)


@cases(200)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_our_error(content):
    with contextlib.suppress(HeaderError):
        assert all(number >= 0 for number, _ in fields(content))
