"""The graph of an ONNX file and the places of the numbers of its tensors, parsed with bounds, as the file is untrusted.

Fields have the numbers of `onnx.proto`, encoded as https://protobuf.dev/programming-guides/encoding says. Weights are
stepped over, so that memory holds the graph alone.
"""

import math
import re
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, NamedTuple

from hf_lineage.checkpoint.foreign_form import HeaderError
from hf_lineage.checkpoint.tensor import DTYPES

MOST_FIELDS, LONGEST_TEXT, LARGEST_TEXT = 2**21, 2**12, 2**26  # bytes of one text, and of all
VARINT, BYTES, FIXED = 0, 2, {1: 8, 5: 4}  # on the wire: a varint, bytes, and fixed numbers of bytes
MOST_NODES, MOST_TENSORS, DEEPEST = 2**18, 2**17, 8  # nodes, tensors, and graphs within graphs at most
MOST_DIMENSIONS, LARGEST_TENSOR, SHORT = 8, 2**48, 64  # of a tensor at most; whole numbers of a list that are kept
RAW, FLOATS, DOUBLES, VARINTS, OUTSIDE = "raw", "floats", "doubles", "varints", "outside"  # how numbers are held
LISTS = {9: RAW, 4: FLOATS, 10: DOUBLES, 5: VARINTS, 7: VARINTS, 11: VARINTS}  # field -> form of the numbers in it
KINDS = {1: "F32", 2: "U8", 3: "I8", 4: "U16", 5: "I16", 6: "I32", 7: "I64", 9: "BOOL", 10: "F16", 11: "F64", 12: "U32"}
KINDS |= {13: "U64", 16: "BF16", 17: "F8_E4M3", 19: "F8_E5M2", 24: "F8_E8M0"}
"""The number of a data type that NumPy has too -> its name in safetensors' spelling."""
BITS = {kind: 8 * DTYPES[name].itemsize for kind, name in KINDS.items()}
BITS |= {18: 8, 20: 8, 21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
"""The number of a data type -> the bits of a number; texts and complex numbers are left out."""
INT64 = 7


class Span(NamedTuple):
    """A range of bytes of the file."""

    start: int
    length: int


Value = int | Span  # a whole number, or the place of bytes: a float, a text, a list of numbers or a message of its own
NOWHERE = Span(0, 0)


@dataclass(frozen=True)
class OnnxTensor:
    """A constant tensor of the graph."""

    name: str
    shape: tuple[int, ...]
    kind: int  # the number of its data type
    form: str = RAW
    span: Span = NOWHERE  # the place of its numbers, in this file or in `file`
    file: str = ""  # the other file that holds them, as the model names it; empty if they are in this one
    values: tuple[int, ...] = ()  # the numbers of a short tensor of whole numbers

    @property
    def size(self) -> int:
        """The bytes that its numbers take; numbers of less than eight bits are packed."""
        return -(-math.prod(self.shape) * BITS[self.kind] // 8)


@dataclass(frozen=True)
class OnnxNode:
    """One operation of the graph; the operations of a graph inside it are nodes of the same list."""

    kind: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]  # numbers and lists of whole numbers by name
    scope: str  # the module of PyTorch it comes from; empty if it is not given
    inner: tuple[str, ...]  # the names of the outputs of the graphs inside it


@dataclass
class OnnxGraph:
    """The graph of a file, with all graphs inside it."""

    nodes: list[OnnxNode] = field(default_factory=list)
    tensors: dict[str, OnnxTensor] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()


def parse(stream: BinaryIO, size: int) -> OnnxGraph:
    """Return the graph of an ONNX file of this size in bytes; raise HeaderError, or OSError if it cannot be read."""
    reader = Reader(stream, size)
    graphs = reader.by_number(reader.whole)[7]
    if len(graphs) != 1:
        raise HeaderError("is not an ONNX file with one graph; have it saved again")
    reader.graph.outputs = reader.read(graphs[0], 0)
    return reader.graph


class Reader:
    """Walks over the messages of one file and keeps its graph; raises HeaderError, or OSError if it cannot be read."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._fields = self._text = 0
        self.whole = Span(0, size)  # the outermost message
        self.graph = OnnxGraph()

    def fields(self, message: Value) -> Iterator[tuple[int, Value]]:
        """Yield the number and the value of every field of a message."""
        position, length = _place(message)
        stop = position + length
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

    def by_number(self, message: Value) -> Mapping[int, list[Value]]:
        """Return the values of every field of a message by its number; none for a field that it does not have."""
        values = defaultdict[int, list[Value]](list)
        for number, value in self.fields(message):
            values[number].append(value)
        return values

    def numbers(self, values: list[Value], most: int) -> list[int]:
        """Return the whole numbers of some fields, each of which may be a packed list; of a long list the first."""
        numbers: list[int] = []
        for value in values:
            if not isinstance(value, Span):
                numbers += [value][: most - len(numbers)]
                continue
            position, stop = value.start, value.start + value.length
            while position < stop and len(numbers) < most:
                number, position = self._varint(position, stop)
                numbers.append(number)
        return [number - 2**64 if number >= 2**63 else number for number in numbers]

    def single(self, value: Value) -> float:
        """Return a float32."""
        content = self.content(value)
        if len(content) != struct.calcsize("<f"):
            raise HeaderError("is damaged: a number has a wrong length; have it saved again")
        return float(struct.unpack("<f", content)[0])

    def text(self, value: Value) -> str:
        """Return a text; bytes that are not UTF-8 are replaced."""
        return self.content(value).decode(errors="replace")

    def content(self, value: Value) -> bytes:
        """Return the bytes of a short field."""
        span = _place(value)
        self._text += span.length
        if span.length > LONGEST_TEXT or self._text > LARGEST_TEXT:
            raise HeaderError(f"has a text of {span.length} bytes, or too many of them; do not trust it")
        self._stream.seek(span.start)
        return self._stream.read(span.length)

    def _varint(self, position: int, stop: int) -> tuple[int, int]:
        """Return a number of seven bits a byte, the least first, and the position behind it."""
        value = 0
        self._stream.seek(position)
        for count, byte in enumerate(self._stream.read(min(10, stop - position))):
            value |= (byte & 127) << 7 * count
            if byte < 128:
                return value & (2**64 - 1), position + count + 1
        raise HeaderError("is truncated or damaged: a number does not end; download it again")

    def read(self, message: Value, depth: int) -> tuple[str, ...]:
        """Keep the nodes and tensors of a graph, and return the names of its outputs."""
        if depth > DEEPEST:
            raise HeaderError(f"has more than {DEEPEST} graphs inside each other; do not trust it")
        has = self.by_number(message)
        for node in has[1]:
            self._node(node, depth)
        for tensor in has[5]:
            self._keep(self._tensor(tensor))
        return tuple(self.text(name) for output in has[12] for name in self.by_number(output)[1])

    def _keep(self, tensor: OnnxTensor) -> None:
        tensors = self.graph.tensors
        if tensors.setdefault(tensor.name, tensor) is not tensor:
            raise HeaderError(f"has two tensors of the name {tensor.name[:200]!r}; do not trust it")
        if len(tensors) > MOST_TENSORS:
            raise HeaderError(f"has more than {MOST_TENSORS} tensors; do not trust it")

    def _node(self, message: Value, depth: int) -> None:
        has = self.by_number(message)
        inputs, outputs = (tuple(map(self.text, has[number])) for number in (1, 2))
        name, kind, domain = (self.text((has[number] or [NOWHERE])[-1]) for number in (3, 4, 7))
        inner: list[str] = []
        attributes = dict(self._attribute(value, depth, inner) for value in has[5])
        scope = ""
        for key, place in map(self._entry, has[9]):
            text = self.text(place) if key == b"pkg.torch.onnx.name_scopes" and place.length <= LONGEST_TEXT else ""
            modules = re.findall(r"'([\w.]*)'", text)  # the last is the node itself, the last but one its module
            scope = next(iter(modules[-2:-1]), "") or scope
        constant = attributes.pop("value", None)
        if kind == "Constant" and outputs and isinstance(constant, OnnxTensor):
            self._keep(replace(constant, name=outputs[0]))
        self.graph.nodes.append(OnnxNode(kind, domain, name, inputs, outputs, attributes, scope, tuple(inner)))
        if len(self.graph.nodes) > MOST_NODES:
            raise HeaderError(f"has more than {MOST_NODES} nodes; do not trust it")

    def _entry(self, message: Value) -> tuple[bytes, Span]:
        entry = dict(self.fields(message))
        value = entry.get(2)
        return self.content(entry.get(1, NOWHERE)), value if isinstance(value, Span) else NOWHERE

    def _attribute(self, message: Value, depth: int, inner: list[str]) -> tuple[str, Any]:
        has = self.by_number(message)
        for graph in (*has[6], *has[11]):
            inner += self.read(graph, depth + 1)
        whole = self.numbers(has[3], 1)
        value: Any = tuple(self.numbers(has[8], SHORT)) or (whole[0] if whole else None)
        for number, read in ((2, self.single), (5, self._tensor)):
            value = read(has[number][-1]) if has[number] and not has[8] else value
        return self.text((has[1] or [NOWHERE])[-1]), value

    def _tensor(self, message: Value) -> OnnxTensor:
        has = self.by_number(message)
        name, kind = self.text((has[8] or [NOWHERE])[-1]), (has[2] or [0])[-1]
        shape = tuple(self.numbers(has[1], MOST_DIMENSIONS + 1))
        if len(shape) > MOST_DIMENSIONS or min(shape, default=1) < 0 or math.prod(shape) > LARGEST_TENSOR:
            raise HeaderError(f"says that its {name[:200]!r} has the shape {shape}; do not trust it")
        tensor = OnnxTensor(name, shape, kind if isinstance(kind, int) else 0)
        if has[14][-1:] == [1]:
            entries = dict(map(self._entry, has[13]))
            file, offset, length = (self.text(entries.get(key, NOWHERE)) for key in (b"location", b"offset", b"length"))
            plain = all(re.fullmatch(r"[0-9]{0,19}", number) for number in (offset, length))
            if not file or not plain or tensor.kind not in BITS or int(length or tensor.size) != tensor.size:
                raise HeaderError(f"does not say where {name[:200]!r} of {shape} is stored; do not trust it")
            return replace(tensor, form=OUTSIDE, span=Span(int(offset or 0), tensor.size), file=file)
        if tensor.kind not in BITS:
            return tensor
        form, span = next(((form, has[key][-1]) for key, form in LISTS.items() if has[key]), (RAW, NOWHERE))
        if not isinstance(span, Span) or (form != VARINTS and span.length != tensor.size):
            what = f"{name[:200]!r} has {span.length if isinstance(span, Span) else 0} of {tensor.size} bytes"
            raise HeaderError(f"is truncated or damaged: {what}; download it again")
        values: list[int] = []
        if tensor.kind == INT64 and span.length <= 8 * SHORT:
            raw = self.content(span) if form == RAW else b""
            values = [int.from_bytes(raw[at : at + 8], "little", signed=True) for at in range(0, len(raw), 8)]
            values = values if form == RAW else self.numbers([span], SHORT)
        return replace(tensor, form=form, span=span, values=tuple(values))


def _place(value: Value) -> Span:
    if not isinstance(value, Span):
        raise HeaderError("is damaged: it has a number in place of a text or a message; have it saved again")
    return value
