"""Traffic: what layers give out while the real module runs, which shows those that the factorization leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch

from hf_lineage.architecture.layers import KERNEL, find_layers
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
