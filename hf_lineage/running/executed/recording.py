"""Recording: a run that records the median input of each writing matrix, or a run with parts held at their medians.

Medians are over the tokens that count, so a part that acts on other tokens alone is held at its median on these.
Stacked experts read their tokens in an order of their own, so all tokens of a stack count.

The input of a module that multiplies with one matrix is read by a hook on the module. Stacked experts are multiplied
inside one module, so the functions of torch are watched there: a matrix is recognized by its place in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from hf_lineage.running.executed.loading import STACK, Loaded, Place

MULTIPLIES = {"linear": (0, 1), "matmul": (0, 1), "__matmul__": (0, 1), "bmm": (0, 1), "mm": (0, 1), "addmm": (1, 2)}
"""Function -> positions of its arguments: the factor to be multiplied, and the matrix."""
SEQUENCES = 3
"""Dimensions of the input of a matrix for whole sequences, (batch, tokens, inputs)."""
At = tuple[str, int | None]
"""The name of a matrix in memory, and the number of its expert where it is one of a stack."""


@dataclass(frozen=True)
class Held:
    """Inputs of one matrix that are held at their median in a run."""

    inputs: torch.Tensor
    """(n,): numbers of the inputs."""
    median: torch.Tensor
    """(n,): the median of each of these inputs."""


class _Stacks(TorchFunctionMode):
    """Watches the multiplications inside modules that hold stacks of experts."""

    def __init__(self, run: Running) -> None:
        super().__init__()
        self._run = run

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        into, matrix = MULTIPLIES.get(getattr(function, "__name__", ""), (0, 0))
        if matrix and self._run.inside and len(args) > matrix and isinstance(args[matrix], torch.Tensor):
            changed = self._run.multiplied(args[into], args[matrix])
            args = (*args[:into], changed, *args[into + 1 :])
        return function(*args, **(kwargs or {}))


class Running:
    """One run of a model, recorded, or with some parts held at their medians."""

    def __init__(self, loaded: Loaded, counted: int, held: Mapping[At, Held] | None = None) -> None:
        self._model, self._counted, self._held = loaded.model, counted, held
        self.medians, self.inside = dict[At, torch.Tensor](), list[torch.nn.Module]()
        self._places = {place.module: place for place in reversed(loaded.places)}

    @torch.no_grad()
    def go(self, given: Mapping[str, Any]) -> Any:
        """Run the model once, on the device of the first weights that are in memory, and return what it gives out."""
        devices = (each.device for each in self._model.parameters() if not each.is_meta)
        device = next(devices, torch.device("cpu"))
        there = {name: each.to(device) if isinstance(each, torch.Tensor) else each for name, each in given.items()}
        with ExitStack() as stack:
            for hook in self._hooks():
                stack.callback(hook.remove)
            stack.enter_context(_Stacks(self))
            return self._model(**there)

    def _hooks(self) -> Iterator[Any]:
        for module, place in self._places.items():
            if is_stack(place):
                yield module.register_forward_pre_hook(lambda module, _: self.inside.append(module))
                yield module.register_forward_hook(self._left)
            else:
                yield module.register_forward_pre_hook(self._given)

    def _left(self, *_: Any) -> None:
        self.inside.pop()

    def _given(self, module: Any, args: Any) -> Any:
        return (self._seen((self._places[module].owner, None), args[0]), *args[1:])

    def multiplied(self, into: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        """Return the input with its held parts at their medians, if the matrix is of the stack of experts that runs."""
        module = self.inside[-1]
        place = self._places[module]
        stack = getattr(module, place.parameter)
        if matrix.untyped_storage().data_ptr() != stack.untyped_storage().data_ptr():
            return into
        if matrix.ndim == STACK:
            return torch.stack([self._seen((place.owner, expert), each) for expert, each in enumerate(into)])
        expert = (matrix.storage_offset() - stack.storage_offset()) // stack.stride(0)
        return self._seen((place.owner, expert), into)

    def _seen(self, at: At, given: torch.Tensor) -> torch.Tensor:
        if self._held is None:
            rows = given[:, -self._counted :] if given.ndim == SEQUENCES else given
            if rows.numel():
                self.medians[at] = rows.reshape(-1, rows.shape[-1]).float().median(dim=0).values.cpu()
            return given
        held = self._held.get(at)
        if held is None:
            return given
        changed = given.clone()
        changed[..., held.inputs.to(given.device)] = held.median.to(given)
        return changed


def is_stack(place: Place) -> bool:
    """Return whether a place is in a stack of experts."""
    return bool(getattr(place.module, place.parameter).ndim == STACK)
