"""Rules: what no product shows, such as a norm that nothing claims; each returns what breaks it."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Iterator
from typing import Any

import torch
from scipy.linalg import hadamard

from hf_lineage.header import LayerSet
from hf_lineage.registry import prefixes as registered
from tests.conformance.models import runner, sample
from tests.conformance.run import WRITERS
from tests.conformance.specimen import Specimen, same
from tests.conformance.wanted import WIDTH

_NUMBERED = re.compile(r"((?:[^.\d][^.]*\.)*)[^.]+\.(\d+)")
"""Name of a module with a number, inside none with a number: what holds it and its neighbours, and the number."""


def layer_outputs(model: Any) -> dict[Any, torch.Tensor]:
    """What every layer of all stacks gives out, whatever the registry says of it.

    A layer is a numbered module, inside no other, that has modules with matrices in it and gives out the stream; its
    parts may stand beside each other under the same number.
    """
    outputs: dict[Any, torch.Tensor] = {}

    def keep(place: Any, module: Any, args: Any, output: Any) -> None:
        first = output[0] if isinstance(output, (tuple, list)) else output
        if isinstance(first, torch.Tensor) and first.is_floating_point() and first.shape[-1] == WIDTH:
            outputs[place] = first

    numbered = ((_NUMBERED.fullmatch(name), module) for name, module in model.named_modules())
    hooks = [
        module.register_forward_hook(functools.partial(keep, match.groups()))
        for match, module in numbered
        if match and any(module.children()) and any(parameter.ndim > 1 for parameter in module.parameters())
    ]
    with torch.no_grad():
        runner(model)(**sample(runner(model), 1, 6))
    for hook in hooks:
        hook.remove()
    return outputs


def norms_left_out(found: Specimen) -> list[str]:
    """Norms with a gain that no branch claims although only branches read them.

    If so, doubling what the norm gives is undone by halving it again where the branches read it.
    """
    claimed = {found.owner(name) for _, each in both(found) for name in (each.norm, each.output_norm) if name}
    readers = {module for path in found.layout.paths for _, _, modules in found.readers(path) for module in modules}
    seen: dict[Any, tuple[torch.Tensor, torch.Tensor]] = {}
    hooks = [m.register_forward_hook(functools.partial(_remember, seen)) for m in found.model.modules()]
    before = _hidden(found.model)
    for hook in hooks:
        hook.remove()
    left = []
    for name, norm in found.model.named_modules():
        if norm in claimed or not is_norm(found, name) or norm not in seen or not list(norm.parameters()):
            continue
        reading = [m for m in readers if m in seen and same(seen[m][0], seen[norm][1])]
        doubled = [norm.register_forward_hook(lambda module, args, output: output * 2)]
        doubled += [m.register_forward_pre_hook(lambda module, args: (args[0] / 2, *args[1:])) for m in reading]
        if reading and same(_hidden(found.model), before):
            left.append(name)
        for hook in doubled:
            hook.remove()
    return left


def output_norms_mistaken(found: Specimen) -> list[str]:
    """Branches whose output is normalised though the registry says it is not, or the other way round.

    A norm on the output, and nothing else, undoes a factor on what the branch writes.
    """
    before = _hidden(found.model)
    wrong = []
    roles = {"mlp": "down", "value_output": "output"}
    for path, sets in ((each, sets) for each in roles for sets in found.layout.sets(each) if sets):
        writers = {found.owner(each.slots[roles[path]].tensor) for each in sets}
        tripled = [m.register_forward_hook(lambda module, args, output: output * 3) for m in writers]
        if same(_hidden(found.model), before) != all(each.output_norm and found.scale(each) is None for each in sets):
            wrong.append(path)
        for hook in tripled:
            hook.remove()
    return sorted(set(wrong))


def gains_left_out(found: Specimen) -> list[str]:
    """Vectors of the residual width in a layer that are no bias, no norm's, and that nothing claims or ignores."""
    claimed = {name for _, each in both(found) for name in (each.norm, each.output_norm, each.inner_norm) if name}
    prefixes = (
        re.escape(p).replace(r"\{layer\}", r"\d+").replace(r"\{stage\}", r"\d+")
        for p in registered(found.layout.factorization)
    )
    layer = re.compile("|".join(prefixes))
    return [
        name
        for name, shape in sorted(found.shapes.items())
        if shape == (WIDTH,) and layer.match(name) and name not in claimed and not name.endswith("bias")
        if not is_ignored(found, name)
        if "norm" not in type(found.owner(name)).__name__.lower()
    ]


def both(found: Specimen) -> Iterator[tuple[int, LayerSet]]:
    """Every matrix set of the model."""
    yield from found.sets("mlp")
    yield from found.sets("value_output")


def is_ignored(found: Specimen, name: str) -> bool:
    """Whether `ignores` lists this."""
    return any(fnmatch.fnmatchcase(name, f"*.{pattern}") for pattern in found.layout.factorization.ignores)


def is_norm(found: Specimen, name: str) -> bool:
    """Whether this is a norm of the residual width inside a layer that the factorization speaks of."""
    module = found.model.get_submodule(name)
    sizes = {tuple(parameter.shape) for parameter in module.parameters()}
    return name.startswith(found.stack) and "norm" in type(module).__name__.lower() and sizes <= {(WIDTH,)}


def wrong_normalization(found: Specimen) -> list[str]:
    """Norms that subtract the mean although the registry says rms_norm, or the other way round."""
    tokens = torch.from_numpy(hadamard(WIDTH)[1:]).float()
    subtracts = found.layout.factorization.normalization == "layer_norm"
    inner = {readers[0] for _, _, readers in found.readers("query_key")}
    names = {name.rpartition(".")[0] for name, module in found.model.named_modules() if module in inner}
    return [
        name
        for name, module in found.model.named_modules()
        if is_norm(found, name) and name.rpartition(".")[0] not in names and not is_ignored(found, name)
        if same(module(tokens), module(tokens + 1)) != subtracts
    ]


def against_plan(found: Specimen) -> list[str]:
    """Matrices that transformers' own tensor-parallel plan splits the other way: readers by rows, or writers not."""
    plan = getattr(found.model.config, "base_model_tp_plan", None) or {}
    names = {module: re.sub(r"\d+", "*", name) for name, module in found.model.base_model.named_modules()}
    wrong = []
    for _, each in both(found):
        for role, slot in each.slots.items():
            said = plan.get(names.get(found.owner(slot.tensor), ""), "")
            if ("col" if role in WRITERS.values() else "row") in said:
                wrong.append(slot.tensor)
    return wrong


def _remember(seen: dict, module: Any, args: Any, output: Any) -> None:
    if args and isinstance(args[0], torch.Tensor) and isinstance(output, torch.Tensor):
        seen[module] = (args[0], output)


def _hidden(model: Any) -> torch.Tensor:
    """The stream behind every layer: what one adds may not reach the last through norms and biases."""
    return torch.cat([output.flatten() for output in layer_outputs(model).values()])
