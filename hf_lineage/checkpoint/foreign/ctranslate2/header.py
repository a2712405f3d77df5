"""The header of a CTranslate2 `model.bin`: what it says of each variable, parsed with bounds, for it is untrusted.

The format is what `ctranslate2.specs.ModelSpec` writes: the version, the name of the specification, the variables, each
followed by its numbers, and other names of some of them. The numbers are stepped over.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from hf_lineage.checkpoint.foreign.bounded_reader import BoundedReader, decode_text
from hf_lineage.checkpoint.foreign.form import HeaderError

VERSIONS = (4, 5, 6)
KINDS = ("F32", "I8", "I16", "I32", "F16", "BF16")
"""The types in the order of their numbers, in safetensors' spelling."""
BYTES = {"F32": 4, "I8": 1, "I16": 2, "I32": 4, "F16": 2, "BF16": 2}
SCALARS = {"F32": "<f", "I8": "<b", "I16": "<h", "I32": "<i"}
"""The types of single numbers that are kept, and how `struct` reads them."""
MOST_VARIABLES, LONGEST_NAME, MOST_DIMENSIONS = 2**17, 2**10, 8


class Variable(NamedTuple):
    """One tensor as the header describes it."""

    shape: tuple[int, ...]
    dtype: str
    start: int
    """The position of its first byte in the file."""


@dataclass(frozen=True)
class Ctranslate2Header:
    """What a file says beside its numbers."""

    specification: str
    """The name of the class that wrote it, such as TransformerDecoderSpec."""
    variables: Mapping[str, Variable]
    """Those that are no single number."""
    numbers: Mapping[str, int | float]
    """Those that are."""
    aliases: Mapping[str, str]
    """Another name -> the name of the variable."""


def parse(stream: BinaryIO, size: int) -> Ctranslate2Header:
    """Return the header of a file of this size in bytes; raise HeaderError, or OSError if it cannot be read."""
    reader = _Reader(stream, size, "it ends before its last variable")
    version = reader.number("<I")
    if version not in VERSIONS:
        raise HeaderError(
            f"is not a CTranslate2 model of a supported version ({version}, not 4 to 6); convert the model again"
        )
    specification, _revision, count = reader.text(), reader.number("<I"), reader.number("<I")
    variables: dict[str, Variable] = {}
    numbers: dict[str, int | float] = {}
    for _ in range(_bounded(count)):
        name = reader.text()
        variable = reader.variable(name)
        if name in variables or name in numbers:
            raise HeaderError(f"has the variable {name!r} twice; do not trust it")
        if variable.shape:
            variables[name] = variable
            reader.skip(math.prod(variable.shape) * BYTES[variable.dtype])
        else:
            content = reader.take(BYTES[variable.dtype])
            numbers[name] = struct.unpack(SCALARS[variable.dtype], content)[0] if variable.dtype in SCALARS else 0.0
    aliases = {reader.text(): reader.text() for _ in range(_bounded(reader.number("<I")))}
    lost = next((name for name, target in aliases.items() if name in variables or target not in variables), None)
    if lost is not None:
        raise HeaderError(f"says that {lost!r} is another name for a variable that is missing; do not trust it")
    return Ctranslate2Header(specification, variables, numbers, aliases)


def _bounded(count: int) -> int:
    if count > MOST_VARIABLES:
        raise HeaderError(f"claims {count} variables; hf-lineage reads at most {MOST_VARIABLES}; do not trust it")
    return count


class _Reader(BoundedReader):
    """Reads the parts of a `model.bin` one after the other."""

    def text(self) -> str:
        """A text behind its length, which counts the null at its end."""
        length = self.number("<H")
        if not 1 <= length <= LONGEST_NAME:
            raise HeaderError(f"has a name of {length} bytes; it is damaged, or not a CTranslate2 model")
        return decode_text(self.take(length)[:-1])

    def variable(self, name: str) -> Variable:
        """What stands before the numbers of a variable, its start being where they begin."""
        dimensions = self.number("<B")
        if dimensions > MOST_DIMENSIONS:
            raise HeaderError(f"says that {name!r} has {dimensions} dimensions; do not trust it")
        shape = tuple(self.number("<I") for _ in range(dimensions))
        kind, held = self.number("<B"), self.number("<I")
        dtype = KINDS[kind] if kind < len(KINDS) else None
        if dtype is None or held != math.prod(shape) * BYTES[dtype] % 2**32:
            raise HeaderError(f"says that {name!r} of {shape} has {held} bytes of the type {kind}; do not trust it")
        return Variable(shape, dtype, self.position)
