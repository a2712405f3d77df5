"""Reshaping: what people do to the sizes of a Llama they build on: narrowed, pruned, widened, cut, repeated, stacked.

Each returns what it makes of a model of transformers, for most of them the same one; only widening keeps the function.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.paper.parts.streams import layers, set_layers, stream
from tests.laundering import blocks

Reshape = Callable[[Any], Any]


def in_order(matrix: Tensor, chosen: Sequence[int] | Tensor, axis: int) -> Tensor:
    """Return some rows or columns of a matrix."""
    return matrix.index_select(axis, torch.as_tensor(chosen)).contiguous()


def _each_matrix(model: Any, change: Callable[[Tensor, int], Tensor]) -> None:
    """Put what `change` makes of a tensor and of the axis that holds the stream in the place of every tensor."""
    given: list[Any] = list(layers(model))
    writers = {id(module) for layer in given for module in (layer.self_attn.o_proj, layer.mlp.down_proj)}
    for module in model.modules():
        if getattr(module, "weight", None) is not None:
            axis = 0 if id(module) in writers or module.weight.ndim == 1 else 1
            module.weight.data = change(module.weight.data, axis)


def narrowed(share: float) -> Reshape:
    """Return what leaves that share of the residual coordinates out: those that carry least, the others in order."""

    def change(model: Any) -> Any:
        seen = stream(model)
        energy = torch.stack([writer.square().sum(1) for writer in seen.writers]).sum(0)
        energy += seen.embeddings[0].square().sum(0)
        kept = energy.argsort()[round(share * seen.width) :].sort().values
        _each_matrix(model, lambda matrix, axis: in_order(matrix, kept, axis))
        model.config.hidden_size = len(kept)
        return model

    return change


def fewer_units(share: float) -> Reshape:
    """Return what keeps that share of the hidden units of every MLP: those that write most, in order."""

    def change(model: Any) -> Any:
        for block in blocks(model):
            writes = block.up.norm(dim=1) * block.gate.norm(dim=1) * block.down.norm(dim=0)
            kept = writes.argsort(descending=True)[: round(share * len(writes))].sort().values
            for name, axis in (("up_proj", 0), ("gate_proj", 0), ("down_proj", 1)):
                module = getattr(block.mlp, name)
                module.weight.data = in_order(module.weight.data, kept, axis)
        model.config.intermediate_size = len(kept)
        return model

    return change


def more_units(model: Any) -> Any:
    """Return a model with half as many hidden units again, Net2Net's way: copies, which share what they write."""
    for block in blocks(model):
        count = len(block.up)
        chosen = torch.cat([torch.arange(count), torch.randint(count, (count // 2,))])
        times = torch.bincount(chosen)[chosen].to(block.down)
        block.mlp.up_proj.weight.data, block.mlp.gate_proj.weight.data = block.up[chosen], block.gate[chosen]
        block.mlp.down_proj.weight.data = block.down[:, chosen] / times
    model.config.intermediate_size = len(chosen)
    return model


def twice_as_wide(model: Any) -> Any:
    """Return a model with every residual coordinate twice, which leaves the norms as they were, Net2Net's way."""
    readers = {tensor.data_ptr() for read in stream(model).reads for tensor in read.readers}

    def doubled(matrix: Tensor, axis: int) -> Tensor:
        both = torch.cat([matrix, matrix], dim=axis)
        return both / 2 if matrix.data_ptr() in readers else both

    _each_matrix(model, doubled)
    model.config.hidden_size *= 2
    return model


def with_layers(*numbers: int) -> Reshape:
    """Return what makes a model of some of its layers, in this order, each as often as it is named."""

    def change(model: Any) -> Any:
        given = list(layers(model))
        set_layers(model, [copy.deepcopy(given[number]) for number in numbers])
        return model

    return change


def stacked(model: Any, other: Any, lower: Sequence[int], upper: Sequence[int]) -> Any:
    """Return a model of some layers of one model below some of another, the rest from the first."""
    chosen = [copy.deepcopy(layers(model)[number]) for number in lower]
    set_layers(model, [*chosen, *(copy.deepcopy(layers(other)[number]) for number in upper)])
    return model


def one_after_the_other(*changes: Reshape) -> Reshape:
    """Return several changes as one."""

    def change(model: Any) -> Any:
        for each in changes:
            model = each(model)
        return model

    return change
