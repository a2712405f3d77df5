"""Traffic: what layers and hidden units are given and give out while the real module runs, with its own activation.

A unit is known by its row in what reads and by its column in what writes, wherever transformers keeps them in memory:
all parameters are random, so no two rows are alike. What layers give out also shows which of them the factorization
does not speak of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.overrides import TorchFunctionMode

from hf_lineage.architecture.layers import KERNEL, find_layers
from hf_lineage.architecture.matrix_sets import LayerSet
from hf_lineage.signature.products.matrices import reader, writer
from tests.conformance.settings import WIDTH
from tests.conformance.tiny import TinyModel

_NUMBERED = re.compile(r"(.*\.|)[^.]+\.(\d+)")
"""Name of a module with a number: what holds it and its neighbours, and the number."""
TOKENS_OF_STREAM = 6


def outputs(tiny: TinyModel, modules: Iterable[torch.nn.Module]) -> dict[torch.nn.Module, list[torch.Tensor]]:
    """What modules give out when the model runs once, as far as they run: one stream or several."""
    given: dict[torch.nn.Module, list[torch.Tensor]] = {}

    def keep(module: torch.nn.Module, args: Any, output: Any) -> None:
        parts = output if isinstance(output, (tuple, list)) else [output]
        if streams := [part for part in parts if isinstance(part, torch.Tensor) and part.is_floating_point()]:
            given[module] = streams

    hooks = [module.register_forward_hook(keep) for module in modules]
    with torch.no_grad():
        tiny.run(1, TOKENS_OF_STREAM)
    for hook in hooks:
        hook.remove()
    return given


def hidden(tiny: TinyModel) -> torch.Tensor:
    """The stream behind every layer: what one adds may not reach the last through norms and biases."""
    layers = [tiny.model.get_submodule(prefix[:-1]) for prefix in tiny.stack]
    return torch.cat([stream.flatten() for streams in outputs(tiny, layers).values() for stream in streams])


def layers_left_out(tiny: TinyModel) -> list[str]:
    """Modules with a number that give out the stream though no matrix in them is in a layer of the factorization.

    Only those that run count: not the tower of a model that is given text alone. What stands beside each other under
    one number is one layer, of which it is enough to speak of a part.
    """
    layers = find_layers(tiny.layout.factorization, tiny.shapes)
    stored = {name for layer in layers for name, shape in layer.shapes.items() if len(shape) > 1 and WIDTH in shape}
    spoken = set(map(tiny.owner, stored))
    places: dict[tuple[str, ...], list[tuple[str, torch.nn.Module]]] = {}
    for name, module in tiny.model.named_modules():
        has_matrices = any(parameter.ndim > 1 for parameter in module.parameters())
        if (match := _NUMBERED.fullmatch(name)) and any(module.children()) and has_matrices:
            places.setdefault(match.groups(), []).append((name, module))
    left = [
        part
        for parts in places.values()
        if spoken.isdisjoint(inside for _, module in parts for inside in module.modules())
        for part in parts
    ]
    given = outputs(tiny, [module for _, module in left])
    return [name for name, module in left if any(map(_is_stream, given.get(module, ())))]


def _is_stream(output: torch.Tensor) -> bool:
    """Whether this is the stream, or several side by side: (..., width), of pictures (batch, width, height, width)."""
    sizes = (output.shape[-1], output.shape[1]) if output.ndim == KERNEL else output.shape[-1:]
    return any(size % WIDTH == 0 for size in sizes)


TOKENS = 12
FIRST = 4
"""How many numbers of a row tell it from every other."""
MULTIPLIES = {
    "linear": (0, 1, False),
    "conv1d": (0, 1, False),
    "conv2d": (0, 1, False),
    "matmul": (0, 1, True),
    "__matmul__": (0, 1, True),
    "bmm": (0, 1, True),
    "addmm": (1, 2, True),
}
"""Function -> where it takes what it multiplies and the matrix, and whether that is (in, out)."""
STACK = 3

Array = NDArray[np.float64]
Calls = dict[bytes, list[Array]]


def key(row: Array) -> bytes:
    """What a row is known by."""
    return row[:FIRST].astype(np.float32).tobytes()


class Traffic(TorchFunctionMode):
    """One plain run of the real model: by row of a matrix what it gave, by column what it was given, call by call."""

    def __init__(self, tiny: TinyModel) -> None:
        super().__init__()
        self.given: Calls = {}
        self.taken: Calls = {}
        self.read: Calls = {}
        """By row, what the whole matrix was given."""
        self.outputs: dict[torch.nn.Module, list[Array]] = {}
        """What each module gave out, by token."""
        self.within = {tiny.owner(each.inner_norm) for _, each in tiny.sets("mlp") if each.inner_norm}
        self.unnormed: torch.Tensor | None = None
        self._run(tiny)

    def _run(self, tiny: TinyModel) -> None:
        for module in tiny.model.modules():
            apart = isinstance(module, torch.nn.Linear) and type(module) is not torch.nn.Linear
            for name, parameter in module.named_parameters(recurse=False):
                if "bias" in name and "correction" not in name and (parameter.ndim > 1 or apart):
                    parameter.data.zero_()  # added behind the multiplication, where nothing tells which unit's it is
        hooks = [module.register_forward_hook(self._remember) for module in tiny.model.modules()]
        with torch.no_grad(), self:
            tiny.run(1, TOKENS)
        for hook in hooks:
            hook.remove()

    def _remember(self, module: Any, args: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor) and output.is_floating_point():
            pictures = [output.movedim(1, -1)] if output.ndim == KERNEL else []
            self.outputs.setdefault(module, []).extend(map(by_token, (output, *pictures)))
        if module in self.within:
            self.unnormed = args[0]

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        into, matrix, turned = MULTIPLIES.get(getattr(function, "__name__", ""), (0, 0, False))
        everything = (*args, *(kwargs or {}).values())
        if matrix and len(everything) > matrix and all(_floating(everything[at]) for at in (into, matrix)):
            self._note(everything[into], everything[matrix], turned, result)
        return result

    def _note(self, into: torch.Tensor, matrix: torch.Tensor, turned: bool, out: torch.Tensor) -> None:
        if matrix.ndim == KERNEL and matrix.shape[2:] == (1, 1):
            matrix, into, out = matrix[..., 0, 0], into.movedim(1, -1), out.movedim(1, -1)
        shown, matrix = self._before_norm(into), matrix.mT if turned and matrix.ndim > 1 else matrix
        if matrix.ndim == STACK and len(matrix) == len(into):
            for part in zip(matrix, into, shown, out, strict=True):
                self._keep(*part)
        elif matrix.ndim == 2 and matrix.shape[1] == into.shape[-1]:
            self._keep(matrix, into, shown, out)

    def _before_norm(self, into: torch.Tensor) -> torch.Tensor:
        """What stood before a norm on hidden units, if that is what made this."""
        if self.unnormed is None or self.unnormed.shape != into.shape:
            return into
        shown, self.unnormed = self.unnormed, None
        return shown

    def _keep(self, matrix: torch.Tensor, into: torch.Tensor, shown: torch.Tensor, out: torch.Tensor) -> None:
        rows, read = by_token(matrix), by_token(into)
        for row, given in zip(rows, by_token(out).T, strict=True):
            self.given.setdefault(key(row), []).append(given)
            self.read.setdefault(key(row), []).append(read)
        for column, taken in zip(rows.T, by_token(shown).T, strict=True):
            self.taken.setdefault(key(column), []).append(taken)


class Units:
    """The hidden units of one matrix set: (units, tokens) of what each role gave and what the writer was given."""

    def __init__(self, tiny: TinyModel, traffic: Traffic, each: LayerSet) -> None:
        self.rows = {
            role: by_token(np.asarray(reader(tiny.layout, each, role, tiny.read, gains=False)))
            for role in ("gate", "up")
            if role in each.slots
        }
        self.columns = by_token(writer(tiny.layout, each, "down", tiny.read)).T
        self.traffic, self.inside, self.size = traffic, "gate" if "gate" in each.slots else "up", each.units

    def __iter__(self) -> Iterator[tuple[int, Array, Array, Array]]:
        """Every unit that ran: its number, what it is inside the activation, beside it, and as it is written."""
        for number, column in enumerate(self.columns):
            given = {role: self.traffic.given.get(key(rows[number]), []) for role, rows in self.rows.items()}
            taken = self.traffic.taken.get(key(column), [])
            if taken and all(given.values()):
                inside = np.concatenate(given[self.inside])
                beside = np.concatenate(given["up"]) if self.inside == "gate" else np.zeros_like(inside)
                yield number, inside, beside, np.concatenate(taken)

    @property
    def read(self) -> list[Array]:
        """What the branch was given, call by call; nothing where it did not run."""
        calls = (self.traffic.read.get(key(row)) for row in self.rows[self.inside])
        return next((call for call in calls if call), [])

    @property
    def reached(self) -> list[int]:
        """How many tokens each expert of the set was given."""
        calls = (self.traffic.read.get(key(row), []) for row in self.rows[self.inside][:: self.size])
        return [sum(int(call.any(axis=1).sum()) for call in read) for read in calls]


def by_token(tensor: torch.Tensor | Array) -> Array:
    """(tokens, size), whatever the tokens are arranged in."""
    values = tensor.numpy(force=True) if isinstance(tensor, torch.Tensor) else tensor
    return values.astype(np.float64).reshape(-1, values.shape[-1] if values.ndim else 1)


def _floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
