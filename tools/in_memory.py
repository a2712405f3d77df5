"""Write which tensors transformers' classes hold in memory otherwise than they publish them.

`python -m tools.in_memory [NAME ...]`: for each factorization, from transformers' own mapping. Every number of a model
gets a number of its own, transformers undoes its conversion, and where each then stands says what was done to it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from transformers import core_model_loading

from hf_lineage.architecture.class_tensors import MEMORY, NUMBER, numberless, older
from hf_lineage.architecture.registry import factorizations, registry_root
from hf_lineage.architecture.schema import Factorization
from tests.conformance.forms import variants
from tests.conformance.models import known_classes, required, transformers
from tests.tensors.__main__ import lines
from tests.tensors.names import module

Tensors = Mapping[str, torch.Tensor]
Names = tuple[str, ...]
UNEQUAL = "linear_attn.conv1d.weight"
"""The end of a name whose parts may have different heights, though transformers cuts them into equal ones."""


def both_layouts(model: Any) -> tuple[Tensors, Tensors]:
    """Return the tensors of a model as they are in memory and as they are published, every number another one."""
    held, count = {}, 0
    for name, tensor in model.state_dict().items():
        held[name] = torch.arange(count, count := count + tensor.numel()).view(tensor.shape)
    return held, core_model_loading.revert_weight_conversion(model, dict(held))


def sources(held: Tensors, published: torch.Tensor) -> tuple[str, ...]:
    """Return the tensors in memory that hold the numbers of a published one, in their order there."""
    starts = {int(tensor.flatten()[0]): name for name, tensor in held.items() if tensor.numel()}
    owners = torch.bucketize(published.flatten(), torch.tensor([*starts]), right=True) - 1
    return tuple(dict.fromkeys([*starts.values()][owner] for owner in owners.tolist()))


def pattern(name: str, numbers: list[str]) -> str:
    """Return a name with `*` for these numbers, which come in this order; those of others stay, and some may be left.

    >>> pattern("layers.3.mlp.0.experts.5.up", ["3", "5"])
    'layers.*.mlp.0.experts.*.up'
    """
    left = [*numbers]
    return NUMBER.sub(lambda found: "*" if left[:1] == [found[0]] and left.pop(0) else found[0], name)


def cut(held: Tensors, names: Names, published: Mapping[str, torch.Tensor]) -> Names | None:
    """Return the patterns of published tensors, by the numbers in the names of those in memory that they are made of.

    None where they are not equal rows of them, of each expert where experts are stacked, or bear other numbers.
    """
    whole = torch.cat([held[name] for name in names]) if len(names) > 1 else held[names[0]]
    numbers, first = NUMBER.findall(names[0]), next(iter(published.values()))
    each = [*whole] if whole.ndim > first.ndim else [whole]
    parts = len(published) // len(each)
    pieces = [piece for one in each for piece in (one.chunk(parts) if parts > 1 else (one,))]
    if names[0].endswith(UNEQUAL) or not all(map(torch.equal, pieces, published.values())):
        return None
    experts = [str(place // parts) for place in range(len(pieces))] if each[0] is not whole else []
    said = [[*numbers, *experts[place : place + 1]] for place in range(len(pieces))]
    patterns = [pattern(name, each) for name, each in zip(published, said, strict=True)]
    if any(name.count("*") != len(each) for name, each in zip(patterns, said, strict=True)):
        return None
    return tuple(dict.fromkeys(patterns))


def converted(model: Any) -> Iterator[tuple[Names, Names]]:
    """Yield which tensors are held in memory otherwise than they are published, and as which they are published.

    The names of both are patterns. Several of one side are the rows of the other's, in their order.
    """
    held, published = both_layouts(model)
    now = {older(name): tensor for name, tensor in published.items()}
    unlike = [name for name, tensor in now.items() if tensor.numel() and tensor is not held.get(name)]
    owned = defaultdict[Names, dict[str, torch.Tensor]](dict)
    for name in sorted(unlike, key=lambda name: int(now[name].flatten()[0])):
        owned[sources(held, now[name])][name] = now[name]
    for names, own in owned.items():
        if patterns := cut(held, names, own):
            yield tuple(map(numberless, names)), patterns
        else:
            print(
                f"{type(model).__name__}: {next(iter(own))} is made of {names[0]} in a way of its own, and is left out"
            )


def of_class(factorization: Factorization, name: str) -> dict[Names, Names]:
    """What a class holds otherwise than it publishes it, where that is the same for every number in the names."""
    ways = defaultdict[Names, set[Names]](set)
    for wanted in variants(name):
        for held, published in converted(module(name, required(factorization, name, wanted))):
            ways[held].add(published)
    both = {one for names in ways for one in names} & {one for of in ways.values() for names in of for one in names}
    left_out = [held for held, of in ways.items() if len(of) > 1 or not both.isdisjoint(held)]
    if left_out:
        print(f"{name}: {left_out} are other tensors on disk than in memory, and are left out")
    return {held: next(iter(of)) for held, of in ways.items() if held not in left_out}


def table(factorization: Factorization) -> dict[str, dict[str, Names]]:
    """What is held otherwise, by the classes that have one configuration and do not contradict each other."""
    rows: list[tuple[type, list[str], dict[Names, Names]]] = []
    for name in (name for name in factorization.classes if name in known_classes()):
        kind, said = getattr(transformers, name).config_class, of_class(factorization, name)
        for other, classes, names in rows:
            if other == kind and all(names.get(held, published) == published for held, published in said.items()):
                classes.append(name)
                names.update(said)
                break
        else:
            rows.append((kind, [name], said))
    return {
        " ".join(classes): {" ".join(held): published for held, published in names.items()}
        for _, classes, names in rows
        if names
    }


def main() -> None:
    """Write the file of every factorization, or of those that are named."""
    for factorization in factorizations():
        if len(sys.argv) == 1 or factorization.name in sys.argv[1:]:
            file = registry_root() / MEMORY / f"{factorization.name}.json"
            file.unlink(missing_ok=True)
            if rows := table(factorization):
                file.write_text(lines(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
