"""Rules: what no product shows, such as a norm that nothing claims; each returns what breaks it."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from typing import Any

import torch
from scipy.linalg import hadamard

from hf_lineage.architecture.layers import KERNEL, LayerSet, find_layers
from hf_lineage.architecture.schema import prefixes as registered
from tests.conformance.forms import WIDTH
from tests.conformance.run import WRITERS
from tests.conformance.tiny import TinyModel, fixed, is_norm, of_pictures, same

_NUMBERED = re.compile(r"(.*\.|)[^.]+\.(\d+)")
"""Name of a module with a number: what holds it and its neighbours, and the number."""


def outputs(tiny: TinyModel, modules: Iterable[torch.nn.Module]) -> dict[torch.nn.Module, list[torch.Tensor]]:
    """What modules give out when the model runs once, as far as they run: one stream or several."""
    given: dict[torch.nn.Module, list[torch.Tensor]] = {}

    def keep(module: torch.nn.Module, args: Any, output: Any) -> None:
        parts = output if isinstance(output, (tuple, list)) else [output]
        if streams := [part for part in parts if isinstance(part, torch.Tensor) and part.is_floating_point()]:
            given[module] = streams

    hooks = [module.register_forward_hook(keep) for module in modules]
    with torch.no_grad():
        tiny.run(1, 6)
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
    silent = (p for p in places.values() if spoken.isdisjoint(inside for _, module in p for inside in module.modules()))
    left = [part for parts in silent for part in parts]
    given = outputs(tiny, [module for _, module in left])
    # The stream, or several side by side: (..., width), of pictures (batch, width, height, width).
    sizes = {
        module: [(s.shape[-1], s.shape[1 if s.ndim == KERNEL else -1]) for s in ran] for module, ran in given.items()
    }
    return [name for name, module in left if any(size % WIDTH == 0 for pair in sizes.get(module, ()) for size in pair)]


def norms_left_out(tiny: TinyModel) -> list[str]:
    """Norms with a gain that no branch claims although only branches read them.

    If so, doubling what the norm gives is undone by halving it again where the branches read it.
    """
    claimed = {tiny.owner(name) for each in both(tiny) for name in (each.norm, each.output_norm) if name}
    readers = {module for path in tiny.layout.paths for _, _, modules in tiny.readers(path) for module in modules}
    seen: dict[Any, tuple[torch.Tensor, torch.Tensor]] = {}

    def remember(module: Any, args: Any, output: Any) -> None:
        if args and isinstance(args[0], torch.Tensor) and isinstance(output, torch.Tensor):
            seen[module] = (args[0], output)

    hooks = [m.register_forward_hook(remember) for m in tiny.model.modules()]
    before = hidden(tiny)
    for hook in hooks:
        hook.remove()
    left = []
    for name, norm in tiny.model.named_modules():
        if norm in claimed or not of_layer(tiny, name) or norm not in seen or not list(norm.parameters()):
            continue
        reading = [m for m in readers if m in seen and same(seen[m][0], seen[norm][1])]
        doubled = [norm.register_forward_hook(lambda module, args, output: output * 2)]
        doubled += [m.register_forward_pre_hook(lambda module, args: (args[0] / 2, *args[1:])) for m in reading]
        if reading and same(hidden(tiny), before):
            left.append(name)
        for hook in doubled:
            hook.remove()
    return left


def output_norms_mistaken(tiny: TinyModel) -> list[str]:
    """Branches whose output is normalised though the registry says it is not, or the other way round.

    A norm on the output, and nothing else, undoes a factor on what the branch writes; a batch norm does not.
    """
    before = hidden(tiny)
    wrong = []
    roles = {"mlp": "down", "value_output": "output"}
    for path, sets in ((each, sets) for each in roles for sets in tiny.layout.sets(each) if sets):
        writers = {tiny.owner(each.slots[roles[path]].tensor) for each in sets}
        tripled = [m.register_forward_hook(lambda module, args, output: output * 3) for m in writers]
        norms = [each.output_norm for each in sets if each.output_norm and tiny.scale(each) is None]
        undoes = len(norms) == len(sets) and not any(fixed(tiny.owner(norm)) for norm in norms)
        if same(hidden(tiny), before) != undoes:
            wrong.append(path)
        for hook in tripled:
            hook.remove()
    return sorted(set(wrong))


def gains_left_out(tiny: TinyModel) -> list[str]:
    """Fixed gains of the residual width, no norm's but a batch norm's, that nothing claims or ignores.

    A layer without any branch has none that would count.
    """
    claimed = {name for each in both(tiny) for name in (each.norm, each.output_norm, each.inner_norm) if name}
    prefixes = map(re.escape, registered(tiny.layout.factorization))
    layer = re.compile(re.sub(r"\\\{(layer|stage|block)\\\}", r"\\d+", "|".join(prefixes)))
    branched = {match[0] for each in both(tiny) for name in each.tensors if (match := layer.match(name))}
    return [
        name
        for name, shape in sorted(tiny.shapes.items())
        if shape == (WIDTH,) and (match := layer.match(name)) and match[0] in branched and name not in claimed
        if not name.endswith(("bias", "running_mean", "running_var"))
        if not ignored(tiny, name)
        if not is_norm(owner := tiny.owner(name)) or fixed(owner)
    ]


def both(tiny: TinyModel) -> list[LayerSet]:
    return [each for path in ("mlp", "value_output") for _, each in tiny.sets(path)]


def of_layer(tiny: TinyModel, name: str) -> bool:
    """Whether this is a norm of the residual width inside a layer that the factorization speaks of, not ignored."""
    module = tiny.model.get_submodule(name)
    sizes = {tuple(parameter.shape) for parameter in module.parameters()}
    return name.startswith(tiny.stack) and is_norm(module) and sizes <= {(WIDTH,)} and not ignored(tiny, name)


def ignored(tiny: TinyModel, name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, f"*.{each}") for each in tiny.layout.factorization.ignores)


def wrong_normalization(tiny: TinyModel) -> list[str]:
    """Norms of another kind than the registry says."""
    inner = {readers[0] for _, _, readers in tiny.readers("query_key")}
    names = {name.rpartition(".")[0] for name, module in tiny.model.named_modules() if module in inner}
    return [
        name
        for name, module in tiny.model.named_modules()
        if of_layer(tiny, name) and name.rpartition(".")[0] not in names
        if _kind(module) != tiny.layout.factorization.normalization
    ]


def _kind(norm: torch.nn.Module) -> str:
    """What a norm is by what it does: with running statistics it gives twice as much more for twice as much."""
    tokens = torch.from_numpy(hadamard(WIDTH)[1:]).float()
    tokens = tokens[:, :, None, None] if of_pictures(norm) else tokens
    if same(norm(2 * tokens) - norm(tokens), norm(tokens) - norm(0 * tokens)):
        return "batch_norm"
    return "layer_norm" if same(norm(tokens), norm(tokens + 1)) else "rms_norm"


def against_plan(tiny: TinyModel) -> list[str]:
    """Matrices that transformers' own tensor-parallel plan splits the other way: readers by rows, or writers not."""
    plan = getattr(getattr(tiny.model, "config", None), "base_model_tp_plan", None) or {}
    base = getattr(tiny.model, "base_model", tiny.model)
    names = {module: re.sub(r"\d+", "*", name) for name, module in base.named_modules()}
    return [
        slot.tensor
        for role, slot in (pair for each in both(tiny) for pair in each.slots.items())
        if ("col" if role in WRITERS.values() else "row") in plan.get(names.get(tiny.owner(slot.tensor), ""), "")
    ]


RULES = (layers_left_out, norms_left_out, gains_left_out, output_norms_mistaken, wrong_normalization, against_plan)
