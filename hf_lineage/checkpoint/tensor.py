"""A tensor of a model as it is loaded, its decoding from stored tensors, and the number formats of these."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from hf_lineage.checkpoint.codes import Codes, Decode, Parts

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
}
DTYPES |= {f"F{8 * size}": np.dtype(f"f{size}") for size in (8, 4, 2)}
DTYPES |= {f"{kind.upper()}{8 * size}": np.dtype(f"{kind}{size}") for kind in "iu" for size in (8, 4, 2, 1)}
"""The number formats of safetensors -> those of NumPy."""
WIDER: dict[np.dtype[Any], type[np.unsignedinteger[Any]]]
WIDER = {DTYPES["F64"]: np.uint64, DTYPES["F32"]: np.uint32, DTYPES["BF16"]: np.uint16}
"""Formats with numbers that float16 lacks -> integers of their size, which order bit patterns by magnitude."""


def without_smallest(numbers: NDArray[Any]) -> None:
    """Write 0 for the numbers that float16 does not hold, in place."""
    integers = WIDER.get(numbers.dtype)
    if integers is None:
        return
    sizes = numbers.view(integers)
    sign = integers(1) << integers(8 * numbers.itemsize - 1)
    lost = (sizes & ~sign) <= np.array(2.0**-25, numbers.dtype).view(integers)  # numbers up to this size are 0 there
    if lost.any():
        sizes[lost] = 0


class _Small(NamedTuple):
    """A number format with a sign, fewer bits of exponent and fewer of the fraction than float32, otherwise alike."""

    signed: type[np.signedinteger[Any]]  # integers of its size
    shift: int  # between the places of its bits and those of the same bits in a float32
    mask: np.int32  # the sign of a float32, and the places where the other bits lie after the shift
    scale: np.float32  # a power of two, because the exponents of the two formats have different offsets
    ends: np.float32  # the least value of the shifted bits if the exponent stands for an infinity or for NaN


SMALL: dict[np.dtype[Any], _Small] = {
    DTYPES[name]: _Small(signed, shift, np.uint32(mask).astype(np.int32), np.float32(2.0**power), np.float32(end))
    for name, signed, shift, mask, power, end in (
        ("F16", np.int16, 13, 0x8FFFE000, 112, 65536),
        ("F8_E4M3", np.int8, 20, 0x87F00000, 120, 480),
        ("F8_E5M2", np.int8, 21, 0x8FE00000, 112, 65536),
    )
}
"""The number formats that are widened by shifting bits: a third of NumPy's time for float16, a tenth for float8."""


def widen(target: NDArray[np.float32], stored: NDArray[Any]) -> None:
    """Write stored numbers of any format into an array in float32 of the same shape; what is too large is infinite."""
    small = SMALL.get(stored.dtype)
    if small is None:
        with np.errstate(over="ignore"):
            target[...] = stored
        return
    bits = target.view(np.int32)
    np.left_shift(stored.view(small.signed), small.shift, out=bits, dtype=np.int32)
    np.bitwise_and(bits, small.mask, out=bits)
    np.multiply(target, small.scale, out=target)
    if target.size and (target.max() >= small.ends or target.min() <= -small.ends):
        target[...] = stored


def single(stored: NDArray[Any]) -> NDArray[np.float32]:
    """Return stored numbers of any format in float32; those that are float32 already are returned themselves."""
    if stored.dtype == np.float32:
        return stored
    target = np.empty(stored.shape, np.float32)
    widen(target, stored)
    return target


def as_stored(parts: Parts) -> NDArray[Any]:
    """Return the only part as it is."""
    (whole,) = parts
    return whole


@dataclass(frozen=True)
class ByRows:
    """A function that decodes each row of a matrix from the same row of its parts, so that rows can be read alone."""

    decode: Decode

    def __call__(self, parts: Parts) -> NDArray[Any]:
        """Return as many rows as the parts have, decoded."""
        return self.decode(parts)


def constant(value: float) -> TensorInfo:
    """Return a tensor of one number that no file stores as one."""
    return TensorInfo((1,), (), lambda _: np.array([value], np.float32), itemsize=4)


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of a model as it is loaded."""

    shape: tuple[int, ...]
    parts: tuple[str, ...]  # the names of the stored tensors from which it is decoded
    decode: Decode = as_stored
    itemsize: int = 0  # bytes of each decoded number; 0 where it is the stored part itself
    refusal: str = ""  # why it cannot be decoded, as a phrase that follows its name; empty if it can
    linear: bool = False  # whether it is (out, in) because of how it is stored, also where the class has (in, out)
    codes: Codes | str = field(default="", compare=False)  # the grid of its numbers, or why no bound holds for each

    def transpose(self) -> TensorInfo:
        """Return the transposed matrix."""
        return replace(self, shape=self.shape[::-1], decode=lambda parts: self.decode(parts).T)

    @property
    def numbers(self) -> int:
        """The number of numbers in the tensor."""
        return math.prod(self.shape)
