"""Recording: what every hidden unit and head writes while a model runs, or a run in which some write their mean.

A module that multiplies with one matrix is seen by a hook on it. A stack of experts is multiplied one by one inside
their module, so that the functions of torch are watched there: the matrix tells by its place in memory which it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from hf_lineage.running.executed.loading import STACK, CannotRunError, Loaded, Place, read_weight

OFTEN = 0.9
"""A part counts with what it writes at most on this share of the tokens: one that is only loud on few is silent."""
MULTIPLIES = {"linear": (0, 1), "matmul": (0, 1), "__matmul__": (0, 1), "bmm": (0, 1), "mm": (0, 1), "addmm": (1, 2)}
"""Function -> where it takes what it multiplies, and the matrix."""
At = tuple[str, int | None]
"""The name of a matrix in memory, and which expert of a stack it is."""


@dataclass
class Record:
    """What was seen in one run."""

    sizes: dict[At, torch.Tensor] = field(default_factory=dict)
    """(parts,): how much each part writes, over all tokens of the input."""
    means: dict[At, torch.Tensor] = field(default_factory=dict)
    """(inputs,): what a matrix was given in the mean of the tokens that reached it."""
    tokens: dict[At, int] = field(default_factory=dict)
    """How many tokens reached it."""
    streams: dict[int, float] = field(default_factory=dict)
    """By the number of a layer, the size of the stream that it reads or gives out, the larger one."""


@dataclass(frozen=True)
class Held:
    """Inputs of one matrix that are held at their mean in a run."""

    inputs: torch.Tensor
    """(n,): their numbers."""
    mean: torch.Tensor
    """(n,)"""


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
    """One run of a model, recorded, or with some parts held at their means."""

    def __init__(self, loaded: Loaded, first: int, held: Mapping[At, Held] | None = None) -> None:
        self._loaded, self._first, self._held = loaded, first, held
        self.record, self.inside = Record(), list[torch.nn.Module]()
        self._mixed: list[tuple[torch.Tensor, torch.Tensor] | None] = []
        """Of every module inside, which experts each token is sent to and what they are mixed by; None if not known."""
        self._places = {place.module: place for place in reversed(loaded.places)}
        self._batch, self._length = 0, 1

    @torch.no_grad()
    def go(self, given: Mapping[str, Any]) -> Any:
        """Run the model once, on the device of the first weights that are in memory, and return what it gives out."""
        self._batch, self._length = given["input_ids"].shape
        devices = (each.device for each in self._loaded.model.parameters() if not each.is_meta)
        device = next(devices, torch.device("cpu"))
        there = {name: each.to(device) if isinstance(each, torch.Tensor) else each for name, each in given.items()}
        with ExitStack() as stack:
            for hook in self._hooks():
                stack.callback(hook.remove)
            stack.enter_context(_Stacks(self))
            return self._loaded.model(**there)

    def _hooks(self) -> Iterator[Any]:
        for module, place in self._places.items():
            if is_stack(place):
                yield module.register_forward_pre_hook(self._entered, with_kwargs=True)
                yield module.register_forward_hook(lambda module, args, output: self._left())
            else:
                yield module.register_forward_pre_hook(self._given)
        if self._held is None:
            for layer, name in self._loaded.layers.items():
                module = self._loaded.model.get_submodule(name)
                yield module.register_forward_hook(self._streamed(layer), with_kwargs=True)

    def _entered(self, module: Any, args: Any, kwargs: Any) -> None:
        tables = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor) and each.ndim == 2]
        chosen = next((each for each in tables if not each.is_floating_point()), None)
        shares = (each for each in tables if each.is_floating_point() and chosen is not None)
        share = next((each for each in shares if each.shape == chosen.shape), None)  # type: ignore[union-attr]
        self.inside.append(module)
        self._mixed.append(None if chosen is None or share is None else (chosen, share))

    def _left(self) -> None:
        self.inside.pop()
        self._mixed.pop()

    def _streamed(self, layer: int) -> Any:
        def note(module: Any, args: Any, kwargs: Any, output: Any) -> None:
            parts = output if isinstance(output, tuple | list) else [output]
            sizes = [_size((*args, *kwargs.values())), _size(parts)]
            self.record.streams[layer] = max(self.record.streams.get(layer, 0.0), *sizes)

        return note

    def _given(self, module: Any, args: Any) -> Any:
        place = self._places[module]
        return (self._seen((place.owner, None), place, args[0]), *args[1:])

    def multiplied(self, into: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        """Return what a matrix is to be given instead, if it is of the stack of experts that runs."""
        module = self.inside[-1]
        place = self._places[module]
        stack = getattr(module, place.parameter)
        if matrix.untyped_storage().data_ptr() != stack.untyped_storage().data_ptr():
            return into
        if matrix.ndim == STACK:
            return torch.stack([self._seen((place.owner, expert), place, each) for expert, each in enumerate(into)])
        expert = (matrix.storage_offset() - stack.storage_offset()) // stack.stride(0)
        return self._seen((place.owner, expert), place, into)

    def _counted(self, expert: int | None, given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(n, inputs): what a matrix is given of tokens that count, and the same as it is mixed in with others.

        Experts read their tokens in the order in which the module was told them. Where that is not known, all count.
        """
        rows = given.reshape(-1, given.shape[-1]).float()
        known, tokens, share = len(rows) == self._batch * self._length, torch.arange(len(rows)), torch.ones(1)
        if expert is not None and self._mixed and self._mixed[-1] is not None:
            chosen, mixed = (each.mT for each in self._mixed[-1])
            sent = chosen == expert
            known, tokens, share = (
                int(sent.sum()) == len(rows),
                sent.nonzero()[:, 1],
                mixed[sent].abs().float()[:, None],
            )
        if not known:
            return rows, rows
        late = (tokens % self._length >= self._first).to(rows.device)
        return rows[late], (rows * share.to(rows.device))[late]

    def _seen(self, at: At, place: Place, given: torch.Tensor) -> torch.Tensor:
        if self._held is not None:
            held = self._held.get(at)
            if held is None:
                return given
            changed = given.clone()
            changed[..., held.inputs.to(given.device)] = held.mean.to(given)
            return changed
        rows, mixed = self._counted(at[1], given)
        if not len(rows):
            return given
        before = self.record.tokens.get(at, 0)
        total = self._batch * max(self._length - self._first, 1)
        reached = min(1.0, len(rows) / total) if at[1] is not None else 1.0
        size = reached * self._written(mixed, place, at[1]).cpu()
        self.record.sizes[at] = size + self.record.sizes.get(at, torch.zeros_like(size)) if before else size
        mean = rows.mean(dim=0).cpu()
        old = self.record.means.get(at, mean)
        self.record.means[at] = (before * old + len(rows) * mean) / (before + len(rows))
        self.record.tokens[at] = before + len(rows)
        return given

    def _written(self, rows: torch.Tensor, place: Place, expert: int | None) -> torch.Tensor:
        """How much each part writes: the mean norm, cut at what it is at most on most of the tokens."""
        whole: torch.Tensor = getattr(place.module, place.parameter).detach()
        whole = read_weight(self._loaded.model, place.name).to(rows.device) if whole.is_meta else whole
        matrix = whole if expert is None else whole[expert]
        if matrix.ndim != 2:
            raise CannotRunError(f"{place.writer.tensor} is no matrix in memory whose columns can be measured")
        columns: torch.Tensor = matrix.mT if _by_rows(place, matrix, rows.shape[1]) else matrix  # (inputs, width)
        if place.writer.part == 1:
            lengths: torch.Tensor = torch.linalg.vector_norm(columns, dim=1, dtype=torch.float32)
            return _often(rows.abs()) * lengths
        heads = columns.reshape(-1, place.writer.part, columns.shape[1]).float()
        grams = heads @ heads.mT
        parts = rows.reshape(len(rows), len(heads), place.writer.part)
        squares = torch.einsum("npq,pqr,npr->np", parts, grams, parts)
        return _often(squares.clamp(min=0).sqrt())


def _by_rows(place: Place, matrix: torch.Tensor, inputs: int) -> bool:
    """Whether inputs are the columns of a matrix, (out, in), as everywhere but where it is stored turned."""
    if matrix.shape[0] != matrix.shape[1]:
        return matrix.shape[1] == inputs
    return "Conv1D" not in type(place.module).__name__


def _often(sizes: torch.Tensor) -> torch.Tensor:
    """(parts,): the mean over tokens of sizes (tokens, parts), each cut at its own quantile OFTEN."""
    cut = torch.quantile(sizes, OFTEN, dim=0)
    return torch.minimum(sizes, cut).mean(dim=0)


def is_stack(place: Place) -> bool:
    """Return whether a place is in a stack of experts."""
    return bool(getattr(place.module, place.parameter).ndim == STACK)


def _size(values: Sequence[Any]) -> float:
    """The mean norm of the vectors of the first that may be a stream, (batch, ..., width)."""
    streams = (each for each in values if isinstance(each, torch.Tensor) and each.is_floating_point() and each.ndim > 2)
    return next((float(each.float().norm(dim=-1).mean()) for each in streams), 0.0)


def sizes_by_writer(loaded: Loaded, record: Record) -> dict[str, torch.Tensor]:
    """Return by the key of each writer what its parts wrote, (parts,); zeros where no token reached them."""
    sizes = {}
    for place in loaded.places:
        writer = place.writer
        if is_stack(place):
            experts: Sequence[int] = range(writer.experts) if place.expert is None else (place.expert,)
            per = writer.parts // len(experts)
            per_expert = [record.sizes.get((place.owner, expert), torch.zeros(per)) for expert in experts]
            sizes[writer.key] = torch.cat(per_expert)
        else:
            sizes[writer.key] = record.sizes.get((place.owner, None), torch.zeros(writer.parts))
    return sizes
