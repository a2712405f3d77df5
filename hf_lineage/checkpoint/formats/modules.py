"""Modules: the stored tensors of one quantized matrix, found by the ends of their names, checked against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hf_lineage.checkpoint.formats.plain import CAST, FLOATS, PLAIN
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.errors import CheckpointError, NothingToCompare, printable

Settings = Mapping[str, Any]
"""What `config.json` says under `quantization_config`; untrusted input."""


def settings(config: Mapping[str, Any]) -> Settings:
    """Return what `config.json` says of the quantization; nothing where it says nothing that can be understood."""
    stated = config.get("quantization_config") or config.get("compression_config")
    return stated if isinstance(stated, dict) else {}


def method(config: Mapping[str, Any]) -> str:
    """Return the name of the quantization in `config.json`, empty if it names none."""
    stated = settings(config).get("quant_method")
    return stated.lower() if isinstance(stated, str) else ""


def count(stated: Settings, key: str, default: int | None = None) -> int:
    """Return a positive number of the settings, or -1; raise CheckpointError for anything else."""
    value = stated.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not (value == -1 or 1 <= value < 2**31):
        raise CheckpointError(
            f"config.json: `{key}` of quantization_config must be a positive integer, not {printable(repr(value), 50)}"
        )
    return value


@dataclass(frozen=True)
class Module:
    """The stored tensors of one quantized matrix, by the ends of their names."""

    start: str
    """What their names have in common."""
    parts: Mapping[str, StoredTensor]

    def shape(self, end: str, dtypes: frozenset[str], shape: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Return the shape of a part; raise CheckpointError if it is missing or is not as the format asks."""
        part, name = self.parts.get(end), printable(f"{self.start}{end}", 200)
        if part is None:
            beside = printable(f"{self.start}{next(iter(self.parts))}", 200)
            raise CheckpointError(f"{name} is missing, without which {beside} cannot be decoded; download it again")
        if part.dtype not in dtypes:
            raise CheckpointError(
                f"{name} is stored as {part.dtype}, its format asks for {' or '.join(sorted(dtypes))}"
            )
        if shape is not None and part.shape != shape:
            raise CheckpointError(f"{name} has shape {part.shape}, the rest of its matrix asks for {shape}")
        return part.shape

    def matrix(self, end: str, dtypes: frozenset[str]) -> tuple[int, int]:
        """Return the shape of a part that is a matrix; raise as `shape` does."""
        shape = self.shape(end, dtypes)
        if len(shape) != 2 or 0 in shape:
            raise CheckpointError(
                f"{printable(f'{self.start}{end}', 200)} has shape {shape}, which is not the shape of a matrix"
            )
        return shape[0], shape[1]

    def names(self, *ends: str) -> tuple[str, ...]:
        """Return the full names of some parts."""
        return tuple(f"{self.start}{end}" for end in ends)

    def damaged(self, what: str) -> CheckpointError:
        """Return an error about this matrix."""
        return CheckpointError(f"{printable(self.start, 200)} {what}; download the weights again")


@dataclass(frozen=True)
class Quantized:
    """A format in which every quantized matrix is stored as several tensors, whose names begin alike."""

    name: str
    methods: frozenset[str]
    """The names by which `quant_method` of config.json calls it."""
    mark: tuple[str, ...]
    """The end of the name of a tensor that every quantized matrix has; the first of several that a name ends in."""
    ends: tuple[str, ...]
    """The ends of the names of all tensors of a matrix, those that are not needed among them."""
    decoded: Callable[[Module, Settings], TensorInfo]
    target: str = ".weight"
    """The end of the name of the matrix itself."""

    def recognises(self, stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> bool:
        """Return whether `config.json` names this format and some matrix is stored in it."""
        return method(config) in self.methods and any(True for _ in self._modules(stored))

    def tensors(self, stored: Mapping[str, StoredTensor], config: Mapping[str, Any]) -> dict[str, TensorInfo]:
        """Return every tensor of the model, the quantized ones first.

        Raise CheckpointError where the parts of one do not fit each other, NothingToCompare where it is stored twice.
        """
        stated, used = settings(config), set[str]()
        tensors: dict[str, TensorInfo] = {}
        for module in self._modules(stored):
            name = f"{module.start}{self.target}"
            if name in tensors:
                raise self._twice(name)
            used |= set(module.names(*module.parts))
            tensors[name] = self.decoded(module, stated)
        rest = {name: tensor for name, tensor in stored.items() if name not in used}
        for name, tensor in rest.items():
            if name in tensors:
                raise self._twice(name)
            if tensor.dtype in CAST:
                raise CheckpointError(
                    f"{printable(name, 200)} is stored as {tensor.dtype} without its scales; download the weights again"
                )
        return tensors | dict(PLAIN.tensors(rest, config))

    def _twice(self, name: str) -> NothingToCompare:
        return NothingToCompare(
            f"{printable(name, 200)} is stored in two ways, once as {self.name}: loaders disagree which of them "
            "counts; remove one of them"
        )

    def _modules(self, stored: Mapping[str, StoredTensor]) -> Iterator[Module]:
        for name in stored:
            mark = next((mark for mark in self.mark if name.endswith(mark)), None)
            if mark is None:
                continue
            start = name.removesuffix(mark)
            parts = {end: stored[f"{start}{end}"] for end in (mark, *self.ends) if f"{start}{end}" in stored}
            if any(part.dtype not in FLOATS for part in parts.values()):
                yield Module(start, parts)
