"""Prove: whether a factorization is what the class of a model computes, in the form that its `config.json` asks for.

A proof names everything in which a factorization differs from what the real module computes, and what no product shows,
such as a norm that nothing claims. Every name that it says has to be on the disk of a model of its class: one that the
class never writes would be read from a repository whose author put a tensor there that the module does not use.
"""

import contextlib
import fnmatch
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import torch
from scipy.linalg import hadamard

from hf_lineage.architecture.layers import KERNEL, LayerSet, find_layers
from hf_lineage.architecture.registry import factorizations, slots
from hf_lineage.architecture.schema import BRANCH_ROLES, Factorization, as_names, as_sets, as_stacks, prefixes
from hf_lineage.signature.factors import matrix_products
from hf_lineage.signature.recipe import Recipe
from tests.conformance.forms import WIDTH
from tests.conformance.run import FOLDED, WRITERS, Run
from tests.conformance.tiny import PLAIN, TinyModel, fixed, is_norm, of_pictures, same

_NUMBERED = re.compile(r"(.*\.|)[^.]+\.(\d+)")  # a module with a number: what holds it, and the number


def outputs(tiny: TinyModel, modules: Iterable[torch.nn.Module]) -> dict[torch.nn.Module, list[torch.Tensor]]:
    """What modules give out when the model runs once, as far as they run: one stream or several."""
    given: dict[torch.nn.Module, list[torch.Tensor]] = {}

    def keep(module: torch.nn.Module, args: Any, output: Any) -> None:
        parts = output if isinstance(output, (tuple, list)) else [output]
        if streams := [part for part in parts if isinstance(part, torch.Tensor) and part.is_floating_point()]:
            given[module] = streams

    with torch.no_grad(), contextlib.ExitStack() as hooks:
        for module in modules:
            hooks.enter_context(module.register_forward_hook(keep))
        tiny.run(1, 6)
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
    shapes = [(name, stream.shape) for name, module in left for stream in given.get(module, ())]
    # The stream, or several side by side: (..., width), of pictures (batch, width, height, width).
    widths = [(name, (shape[-1], shape[1 if len(shape) == KERNEL else -1])) for name, shape in shapes]
    return list(dict.fromkeys(name for name, sizes in widths if any(size % WIDTH == 0 for size in sizes)))


def norms_left_out(tiny: TinyModel) -> list[str]:
    """Norms with a gain that no branch claims although only branches read them.

    If so, doubling what the norm gives is undone by halving it again where the branches read it.
    """
    claimed = {tiny.owner(name) for found in both(tiny) for name in (found.norm, found.output_norm) if name}
    readers = {module for path in tiny.layout.paths for _, _, modules in tiny.readers(path) for module in modules}
    seen: dict[Any, tuple[torch.Tensor, torch.Tensor]] = {}

    def remember(module: Any, args: Any, output: Any) -> None:
        if args and isinstance(args[0], torch.Tensor) and isinstance(output, torch.Tensor):
            seen[module] = (args[0], output)

    with contextlib.ExitStack() as hooks:
        for each in tiny.model.modules():
            hooks.enter_context(each.register_forward_hook(remember))
        before = hidden(tiny)
    left = []
    for name, norm in tiny.model.named_modules():
        if norm in claimed or not of_layer(tiny, name) or norm not in seen or not list(norm.parameters()):
            continue
        reading = [m for m in readers if m in seen and same(seen[m][0], seen[norm][1])]
        with norm.register_forward_hook(lambda module, args, output: output * 2), contextlib.ExitStack() as hooks:
            for each in reading:
                hooks.enter_context(each.register_forward_pre_hook(lambda module, args: (args[0] / 2, *args[1:])))
            if reading and same(hidden(tiny), before):
                left.append(name)
    return left


def output_norms_mistaken(tiny: TinyModel) -> list[str]:
    """Branches whose output is normalised though the registry says it is not, or the other way round.

    A norm on the output, and nothing else, undoes a factor on what the branch writes; a batch norm does not.
    """
    before, roles = hidden(tiny), {"mlp": "down", "value_output": "output"}
    wrong: list[str] = []
    for path, sets in ((each, sets) for each in roles for sets in tiny.layout.sets(each) if sets):
        writers = {tiny.owner(each.slots[roles[path]].tensor) for each in sets}
        norms = [each.output_norm for each in sets if each.output_norm and tiny.scale(each) is None]
        undoes = len(norms) == len(sets) and not any(fixed(tiny.owner(norm)) for norm in norms)
        with contextlib.ExitStack() as hooks:
            for writer in writers:
                hooks.enter_context(writer.register_forward_hook(lambda module, args, output: output * 3))
            if same(hidden(tiny), before) != undoes:
                wrong.append(path)
    return sorted(set(wrong))


def gains_left_out(tiny: TinyModel) -> list[str]:
    """Fixed gains of the residual width, no norm's but a batch norm's, that nothing claims or ignores.

    A layer without any branch has none that would count.
    """
    claimed = {name for each in both(tiny) for name in (each.norm, each.output_norm, each.inner_norm) if name}
    starts = map(re.escape, prefixes(tiny.layout.factorization))
    layer = re.compile(re.sub(r"\\\{(layer|stage|block)\\\}", r"\\d+", "|".join(starts)))
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

PLACE = re.compile(r"\{(layer|stage|block|expert)\}")
NUMBER = re.compile(r"\.\d+(?=\.|$)")


def names_said(factorization: Factorization) -> set[str]:
    every_name = {f"{prefix}." for prefix in prefixes(factorization)} | set(factorization.ignores)
    for each in factorization.branches.everything():
        norms = (each.norm, each.output_norm, each.inner_norm)
        optional = (*norms, each.where, each.unless)
        every_name |= {name for slot in slots(each) for name in slot.tensors}
        every_name |= {name for names in map(as_names, optional) for name in names if name}
    return every_name


def names_unseen(wanted: set[str], tiny: TinyModel) -> set[str]:
    names = (*tiny.shapes, *tiny.model.state_dict())  # `save_original_format=False` writes those in memory
    stored = {NUMBER.sub(".0", f".{tensor}").removesuffix(".weight") for tensor in names}
    zeros = {name: NUMBER.sub(".0", PLACE.sub("0", name)) for name in wanted}
    patterns = {name: f".{zero}*" if name.endswith(".") else f"*.{zero}" for name, zero in zeros.items()}
    return {name for name, pattern in patterns.items() if not fnmatch.filter(stored, pattern)}


def faults(tiny: TinyModel) -> dict[str, Any]:
    """By the name of what noticed them; none if the factorization is the module's."""
    noticed = {"unclaimed": tiny.layout.unclaimed, "deviations": deviations(tiny)}
    return {name: seen for name, seen in (noticed | {rule.__name__: rule(tiny) for rule in RULES}).items() if seen}


def deviations(tiny: TinyModel) -> dict[str, float]:
    """Path and recipe -> how far the worst product is from what the module computes, where that is not rounding."""
    everything = {
        f"{path} {'folded' if recipe.gains else 'plain'}": list(differences(tiny, path, recipe))
        for path in tiny.layout.paths
        for recipe in (PLAIN, FOLDED)
    }
    return {label: max(seen) for label, seen in everything.items() if not all(each < 1e-4 for each in seen)}


def differences(tiny: TinyModel, path: str, recipe: Recipe) -> Iterator[float]:
    """For every writer of a path the relative distance between the branch product and what the module gives out."""
    run = Run(tiny, path, recipe.gains).go()
    products: dict[Any, torch.Tensor] = {}
    for layer in range(tiny.layout.layers):
        sets = [each for at, each in tiny.sets(path) if at == layer]
        for each, term in zip(sets, matrix_products(tiny.layout, path, layer, recipe, tiny.read), strict=True):
            key = layer if path == "query_key" else run.exit(each)
            products[key] = products.get(key, torch.zeros(())) + torch.from_numpy(term.out @ term.inn)
    count = len(run.known)
    for key, product in products.items():
        if path == "query_key":
            scores = run.scores[key].flatten(0, -3).sum(0)
            scores = scores[:, scores.any(dim=0)][2 * count : 4 * count, : 2 * count]  # padding scores nothing
            rows, against = (scores[:count] - scores[count:]) / 2, run.known @ product @ run.known.mT
            seen = (rows[:, :count] - rows[:, count:]) / 2
            seen, expected = seen / seen.norm(), against / against.norm()  # the softmax has a scale of its own
        else:
            given = run.outputs[key]
            seen, expected = (given[:count] - given[count:]) / 2, run.known @ product.mT
        yield float((seen - expected).norm() / expected.norm())


def keys(piece: msgspec.Struct) -> set[str]:
    fields = msgspec.structs.fields(piece)
    return {field.name for field in fields if getattr(piece, field.name) not in (field.default, {}, ())}


def layout(file: Factorization) -> set[str]:
    """The keys of a file and of its branches, how it stores matrices, and how many stacks of layers it knows."""
    sets = {branch: as_sets(file.branches.sets(branch)) for branch in BRANCH_ROLES}
    said = {f"{branch} {key}" for branch, every in sets.items() for one in every for key in keys(one)}
    return said | keys(file) | {file.normalization, file.stored, f"{len(as_stacks(file.layers))} stacks"}


LAYOUTS, _known = list[Factorization](), set[str]()  # files with a key or a way to store that none before has
for _file in factorizations():
    if _file.name != "blt" and not layout(_file) <= _known:  # all forms of a BLT take long to build
        LAYOUTS.append(_file)
        _known |= layout(_file)


def pretend(name: str, **changes: Any) -> Factorization:
    """A factorization with its branches, or anything else about it, said differently."""
    found = next(found for found in factorizations() if found.name == name)
    edited: dict[str, Any] = {}
    for kind in changes.keys() & {"mlp", "attention"}:
        sets, said = getattr(found.branches, kind), changes.pop(kind)
        several = isinstance(sets, tuple)
        changed = tuple(each and msgspec.structs.replace(each, **said) for each in (sets if several else (sets,)))
        edited[kind] = changed if several else changed[0]
    return msgspec.structs.replace(found, branches=msgspec.structs.replace(found.branches, **edited), **changes)
