"""Traffic: what every hidden unit is given and gives out while the real module runs, with its own activation.

A unit is known by its row in what reads and by its column in what writes, wherever transformers keeps them in memory:
all parameters are random, so no two rows are alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.overrides import TorchFunctionMode

from hf_lineage.architecture import KERNEL, LayerSet
from hf_lineage.running.model import TinyModel
from hf_lineage.signature.products import reader, writer

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
