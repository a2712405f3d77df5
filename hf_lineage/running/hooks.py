"""Hooks: what each writing matrix is given while a model runs, and runs with parts held at their median.

Only the tokens that count do so here too: what acts on the others alone is held at what it does on these. Experts that
are stacked read their tokens in an order of their own, so that all of theirs count.

A module that multiplies with one matrix is seen by a hook on it. A stack of experts is multiplied one by one inside
their module, so that the functions of torch are watched there: the matrix tells by its place in memory which it is.
The same watch lets a processor without instructions for 16-bit numbers multiply them as float32, several times as fast.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from hf_lineage.running.load import STACK, Loaded, Place

MULTIPLIES = {"linear": (0, 1), "matmul": (0, 1), "__matmul__": (0, 1), "bmm": (0, 1), "mm": (0, 1), "addmm": (1, 2)}
"""Function -> where it takes what it multiplies, and the matrix."""
ROWS = 4096
"""Rows of a matrix that are in memory as float32 at once, so that no matrix takes much more than it does as stored."""
SEQUENCES = 3
"""Dimensions of what a matrix is given for whole sequences, (batch, tokens, inputs)."""
At = tuple[str, int | None]
"""The name of a matrix in memory, and which expert of a stack it is."""


class _Products(TorchFunctionMode):
    """Watches the multiplications inside modules that hold stacks of experts, and makes all of them fast."""

    def __init__(self, run: Running) -> None:
        super().__init__()
        self._run = run

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        into, matrix = MULTIPLIES.get(name, (0, 0))
        if matrix and len(args) > matrix and isinstance(args[matrix], torch.Tensor):
            if self._run.inside:
                args = (*args[:into], self._run.multiplied(args[into], args[matrix]), *args[into + 1 :])
            if not kwargs and args[into].is_cpu and is_slow(args[into].dtype):
                return in_float32(function, name, args)
        return function(*args, **(kwargs or {}))


@functools.cache
def is_slow(dtype: torch.dtype) -> bool:
    """Return whether this processor has no instructions that multiply such numbers."""
    able = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}
    return dtype in able and not getattr(torch.ops.mkldnn, able[dtype])()


def in_float32(function: Any, name: str, args: tuple[Any, ...]) -> torch.Tensor:
    """Return what a function makes of matrices of 16 bits, multiplied as float32 and rounded to 16 bits again.

    Rows of a weight, and matrices of a batch, are converted some at a time.
    """
    pieces, dim = [args], 0
    if name == "linear":
        rows = zip(*(each.split(ROWS) for each in args[1:] if each is not None), strict=True)
        pieces, dim = [(args[0], *each) for each in rows], -1
    elif name == "bmm":
        pieces = list(zip(*(each.split(1) for each in args), strict=True))
    made = [function(*(each.float() for each in piece)).to(args[0].dtype) for piece in pieces]
    return torch.cat(made, dim) if made[1:] else made[0]


class Running:
    """Runs a model on one input: first recorded, and then with some inputs of its matrices held at their medians."""

    def __init__(self, loaded: Loaded, counted: int) -> None:
        self._model, self._counted = loaded.model, counted
        self._held: Mapping[At, torch.Tensor] | None = None
        self.medians, self.inside = dict[At, torch.Tensor](), list[torch.nn.Module]()
        self._places = {place.module: place for place in reversed(loaded.places)}

    @torch.no_grad()
    def go(self, given: Mapping[str, Any], held: Mapping[At, torch.Tensor] | None = None) -> Any:
        """Run the model once, on the device of the first weights that are in memory, and return what it gives out."""
        self._held = held
        devices = (each.device for each in self._model.parameters() if not each.is_meta)
        device = next(devices, torch.device("cpu"))
        there = {name: each.to(device) if isinstance(each, torch.Tensor) else each for name, each in given.items()}
        with ExitStack() as stack:
            for hook in self._hooks():
                stack.callback(hook.remove)
            stack.enter_context(_Products(self))
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
        """Return what a matrix is to be given instead, if it is of the stack of experts that runs."""
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
        if at not in self._held or at not in self.medians:
            return given
        changed, inputs = given.clone(), self._held[at]
        changed[..., inputs.to(given.device)] = self.medians[at][inputs].to(given)
        return changed


def is_stack(place: Place) -> bool:
    """Return whether a place is in a stack of experts."""
    return bool(getattr(place.module, place.parameter).ndim == STACK)


NATS, CHANGE = "nats", "change"
"""Units of a divergence: nats a token or, without a head that predicts tokens, a share of the last state."""


def held_inputs(loaded: Loaded, parts: Mapping[str, Sequence[int]]) -> dict[At, torch.Tensor]:
    """Return which inputs of which matrices hold their median, given parts by the key of their writer."""
    chosen: dict[At, list[int]] = {}
    for place in loaded.places:
        writer = place.writer
        per = writer.parts // writer.experts
        for number in parts.get(writer.key, ()):
            expert = (number // per if place.expert is None else place.expert) if is_stack(place) else None
            first = number % per * writer.part
            chosen.setdefault((place.owner, expert), []).extend(range(first, first + writer.part))
    return {at: torch.tensor(inputs) for at, inputs in chosen.items()}


def divergences(before: Any, after: Any, counted: int) -> tuple[str, torch.Tensor, float]:
    """Return what they are counted in, by sequence how far what a model says moved, and how much it says at all.

    The last is how far what it says to a token is, in the mean, from what it says to all of them together. So many
    tokens at the end of each sequence count.
    """
    if hasattr(before, "logits") and before.logits.ndim == STACK:
        return NATS, *_nats(before.logits[:, -counted:], after.logits[:, -counted:])
    old, new = (_rows(each[0], counted) for each in (before, after))
    sizes = old.norm(dim=-1).clamp(min=1e-30)
    says = ((old - old.mean(dim=(0, 1))).norm(dim=-1) / sizes).mean()
    return CHANGE, ((old - new).norm(dim=-1) / sizes).mean(dim=1), float(says)


def _rows(given: torch.Tensor, counted: int) -> torch.Tensor:
    """Return (sequences, tokens, width): what a model gives out for each token that counts, or for all together."""
    return (given[:, -counted:] if given.ndim == STACK else given[:, None]).cpu().double()


def _nats(before: torch.Tensor, after: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return the divergence a token by sequence, and the information in what is said, a sequence at a time."""
    moved, unsure, together = [], 0.0, torch.zeros(before.shape[-1], dtype=torch.float64)
    for first, second in zip(before, after, strict=True):
        old, new = (each.cpu().double().log_softmax(dim=-1) for each in (first, second))
        moved.append((old.exp() * (old - new)).sum() / len(old))
        unsure += float(torch.special.entr(old.exp()).sum())
        together += old.exp().sum(dim=0)
    count = before.shape[:2].numel()
    return torch.stack(moved), float(torch.special.entr(together / count).sum()) - unsure / count
