"""Pair: both models along one path, without the layers that write next to nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from hf_lineage.errors import SignatureError
from hf_lineage.signature import PathSignature, Signature, beside_base

Layers = tuple[tuple[int, ...], tuple[int, ...]]
"""Numbers of layers, of the base and of the candidate."""


@dataclass(frozen=True)
class Pair:
    """Both models along one path, without the layers that write next to nothing."""

    path: str
    signatures: tuple[PathSignature, PathSignature]
    """Of the base and of the candidate."""
    layers: Layers
    left_out: Layers = ((), ())
    exchangeable: bool = True
    """Whether both architectures treat all residual coordinates alike."""

    @classmethod
    def align(cls, path: str, base: Signature, candidate: Signature) -> Pair:
        """Return the pair of two signatures along a path."""
        both = base.paths[path], candidate.paths[path]
        numbers = base.numbers(path), candidate.numbers(path)
        return replace(cls.along(path, *both, numbers), exchangeable=base.exchangeable and candidate.exchangeable)

    @classmethod
    def along(cls, path: str, base: PathSignature, candidate: PathSignature, numbers: Layers | None = None) -> Pair:
        """Return the pair of two path signatures, whose layers have these numbers or are numbered from 0."""
        counted = numbers or (tuple(range(len(base.trace))), tuple(range(len(candidate.trace))))
        if base.joins is not None and candidate.joins is not None:
            candidate = replace(candidate, joins=beside_base(candidate.joins, base.joins))
        (base, base_layers, base_silent), (candidate, layers, silent) = map(_writing, (base, candidate), counted)
        return cls(path, (base, candidate), (base_layers, layers), (base_silent, silent))

    @property
    def idle(self) -> tuple[bool, bool]:
        """For the base and the candidate, whether no layer adds enough to its stream to count in it."""
        base, candidate = (bool(one.usable.any() and not one.writing.any()) for one in self.signatures)
        return base, candidate

    @property
    def not_finite(self) -> Layers:
        """The numbers of the layers with values that are not finite."""
        base, candidate = (
            tuple(number for number, finite in zip(layers, signature.finite, strict=True) if not finite)
            for signature, layers in zip(self.signatures, self.layers, strict=True)
        )
        return base, candidate


def _writing(whole: PathSignature, numbers: tuple[int, ...]) -> tuple[PathSignature, tuple[int, ...], tuple[int, ...]]:
    """A path without the layers that write next to nothing, the numbers of its layers, and those left out."""
    if whole.writing.all() or not whole.writing.any():
        return whole, numbers, ()
    writing, silent = (tuple(np.array(numbers)[rows].tolist()) for rows in (whole.writing, ~whole.writing))
    return whole.select(np.flatnonzero(whole.writing)), writing, silent


def same_recipe(a: Signature, b: Signature) -> None:
    """Raise SignatureError unless every parameter that changes a number is the same in both signatures."""
    first, second = asdict(a.recipe), asdict(b.recipe)
    unlike = [f"{key} {first[key]} and {second[key]}" for key in first if first[key] != second[key]]
    if unlike:
        raise SignatureError(
            f"{a.model} and {b.model} differ in their recipes ({', '.join(unlike)}); extract both with one"
        )
