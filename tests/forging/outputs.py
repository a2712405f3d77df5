"""Outputs: what a model says to two inputs, and whether a part of it has to do with that."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from tests.conformance.tiny import runner, sample
from tests.decoys import Tensors

LENGTH, INPUTS = 24, 2  # tokens of a sequence, and sequences
ROUNDING = 1e-5  # of the largest output: by so little the same outputs differ
SAME = 1e-3  # of the spread of the outputs: if they move by less, nothing moved
EXACT = 1e-4  # the same for a copy, which has to say what its base says
IDLE, BROKEN, AT_WORK = "idle", "broken", "at work"
Outputs = list[Tensor]


@torch.no_grad()
def run(model: Any) -> Outputs:
    """Everything that a model gives out on two inputs, as numbers."""
    try:
        return list(_tensors(model(**_two(model))))
    except Exception:  # a class that wants more than its base does
        base = runner(model)
        return list(_tensors(base(**_two(base))))


def _two(model: Any) -> dict[str, Tensor]:
    """What a model takes: a sequence, and the same from the end."""
    inputs = sample(model, INPUTS, LENGTH)
    for name, each in inputs.items():
        if each.ndim > 1 and len(each) == INPUTS and "mask" not in name and "shapes" not in name:
            inputs[name] = torch.stack([each[0], each[1].flip(0) if each.ndim < 4 else each[1].flip(-1)])
    return inputs


def _tensors(given: Any) -> Iterator[Tensor]:
    if isinstance(given, Tensor):
        if given.is_floating_point() and given.numel() > 1:
            yield given.float()
    elif isinstance(given, Mapping):
        yield from (tensor for key, each in given.items() if "router" not in key for tensor in _tensors(each))
    elif isinstance(given, list | tuple):
        yield from (tensor for each in given for tensor in _tensors(each))


def sound(outputs: Outputs) -> bool:
    """Whether outputs are finite, and not the same for every token, nor for both inputs, but for rounding."""
    for each in outputs:
        between = float((each[0] - each[1]).double().std()) if len(each) == INPUTS else math.inf
        if not each.isfinite().all() or min(_spread(each), between) <= ROUNDING * float(each.abs().max()):
            return False
    return bool(outputs)


def moved(after: Outputs, before: Outputs) -> float:
    """By how much outputs moved, in units of the spread of each between tokens and inputs."""
    if [each.shape for each in after] != [each.shape for each in before]:
        return float("inf")
    pairs = zip(after, before, strict=True)
    return max(float((one - other).abs().max()) / max(_spread(other), 1e-30) for one, other in pairs)


def said_of(outputs: Outputs, others: Outputs, most: float = SAME) -> str:
    """What a part does, by what a model gives out with it and without it."""
    if not sound(outputs):
        return BROKEN
    return IDLE if moved(others, outputs) < most else AT_WORK


def _spread(output: Tensor) -> float:
    """How far an output is from its mean over tokens and inputs: what depends on neither is no work of the model."""
    rows = output.reshape(-1, output.shape[-1]).double()
    return float((rows - rows.mean(dim=0)).std())


def swap(model: Any, noise: Tensors) -> Outputs:
    """What a model computes with noise in place of a part of its state; a part that is not built does nothing."""
    state = model.state_dict()
    for name, tensor in noise.items():
        if name in state and state[name].shape == tensor.shape:
            state[name].copy_(tensor)
    return run(model)
