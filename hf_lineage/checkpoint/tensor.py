"""A tensor of a model as it is loaded, and how it is decoded from the stored tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Decode = Callable[[Sequence[NDArray[Any]]], NDArray[Any]]
"""A function from the stored parts of a tensor, in their order, to the tensor."""


def as_stored(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the only part as it is."""
    (whole,) = parts
    return whole


@dataclass(frozen=True)
class ByRows:
    """A function that decodes each row of a matrix from that row of all its parts, so that some can be had alone."""

    decode: Decode

    def __call__(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return as many rows as the parts have, decoded."""
        return self.decode(parts)


def constant(value: float) -> TensorInfo:
    """Return a tensor of one number that no file stores as one."""
    return TensorInfo((1,), (), lambda _: np.array([value], np.float32), itemsize=4)


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of a model as it is loaded."""

    shape: tuple[int, ...]
    parts: tuple[str, ...]
    """The names of the stored tensors from which it is decoded."""
    decode: Decode = as_stored
    itemsize: int = 0
    """Bytes of each decoded number; 0 where it is the stored part itself."""
    refusal: str = ""
    """Why it cannot be decoded, as a phrase that follows its name; empty if it can."""
    linear: bool = False
    """Whether it is (out, in) because of how it is stored, also where the class has (in, out)."""

    def turned(self) -> TensorInfo:
        """Return the transposed matrix."""
        return replace(self, shape=self.shape[::-1], decode=lambda parts: self.decode(parts).T)

    @property
    def numbers(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)
