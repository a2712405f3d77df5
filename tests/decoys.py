"""Decoys: folders that hold two independent models, and what transformers makes of them.

A is the base, B an independent model. Each kind of decoy puts both into one folder, or one of them in an unusual place.
transformers' own loader tells which of them the folder is: the oracle of what a verdict may say.
"""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file

from hf_lineage.architecture.layers import find_layers
from hf_lineage.architecture.registry import lookup
from hf_lineage.architecture.schema import Factorization, as_stacks
from tests.conformance.models import tiny_model
from tests.models import WEIGHTS, edit_json, shard

Tensors = dict[str, torch.Tensor]
INDEX, OTHER = "model.safetensors.index.json", "other.safetensors"


class Pair(NamedTuple):
    """Two independent models of one class, saved, and where a decoy goes."""

    a: Path
    b: Path
    folder: Path

    @property
    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.a / "config.json").read_text(encoding="utf-8"))
        return found

    @property
    def factorization(self) -> Factorization:
        return lookup(self.config)[1]

    def tensors(self) -> tuple[Tensors, Tensors]:
        return load_file(self.a / WEIGHTS), load_file(self.b / WEIGHTS)

    def write(self, tensors: Tensors, file: str = WEIGHTS, **config: Any) -> Path:
        self.folder.mkdir(exist_ok=True)
        shutil.copy(self.a / "config.json", self.folder)
        edit_json(self.folder / "config.json", **config)
        save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, self.folder / file)
        return self.folder

    def layers(self, tensors: Tensors) -> Iterator[tuple[str, str, int, str]]:
        """Of every tensor inside a layer its name, and the parts of it: before, at and behind the layer's number."""
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        for layer in find_layers(self.factorization, shapes):
            stack = re.sub(r"\d+$", "", layer.prefix)
            for name in (name for name in layer.shapes if name.startswith(layer.prefix)):
                yield name, stack, layer.number, name.removeprefix(layer.prefix)


def appended(pair: Pair) -> Path:
    """B's layers, and after the last of them A's."""
    a, b = pair.tensors()
    depths = Counter(stack for stack, _ in {(stack, number) for _, stack, number, _ in pair.layers(a)})
    moved = {f"{stack}{number + depths[stack]}{rest}": a[name] for name, stack, number, rest in pair.layers(a)}
    return pair.write({**moved, **b})


def second_prefix(pair: Pair) -> Path:
    """B where the class looks, A under another prefix that the registry lists."""
    a, b = pair.tensors()
    listed = {prefix for prefixes in as_stacks(pair.factorization.layers).values() for prefix in prefixes}
    moved = {}
    for name, stack, number, rest in pair.layers(a):
        own = f"{stack}{{layer}}"
        for alike in [other for other in sorted(listed - {own}) if own.endswith(other) or other.endswith(own)][:1]:
            moved[alike.replace("{layer}", str(number)) + rest] = a[name]
    return pair.write({**moved, **b}) if moved else foreign_prefix(pair)


def foreign_prefix(pair: Pair) -> Path:
    """B where the class looks, A under a prefix that nobody knows."""
    a, b = pair.tensors()
    return pair.write({**b, **{f"decoy.{name}": a[name] for name, *_ in pair.layers(a)}})


def one_letter_prefix(pair: Pair) -> Path:
    """A where the class looks, B under the class's prefix with another sign for its dot, which transformers strips."""
    a, b = pair.tensors()
    return pair.write({**a, **{name.replace(".", "-", 1): b[name] for name, *_ in pair.layers(b)}})


def named_file(pair: Pair) -> Path:
    """A in the usual file, B in one that the configuration names."""
    a, b = pair.tensors()
    pair.write(b, OTHER)
    return pair.write(a, transformers_weights=OTHER)


def named_file_alone(pair: Pair) -> Path:
    """A in a file that the configuration names, and nothing else."""
    return pair.write(pair.tensors()[0], OTHER, transformers_weights=OTHER)


def file_and_shards(pair: Pair) -> Path:
    """B in one file, A in shards with an index."""
    a, b = pair.tensors()
    shard(pair.write(a))
    return pair.write(b)


def leftovers(pair: Pair) -> Path:
    """A with what old files hold besides: buffers, masks, and layers that predict further tokens."""
    a, b = pair.tensors()
    old = {".self_attn.rotary_emb.inv_freq": torch.ones(4), ".attn.masked_bias": torch.tensor(-1e4)}
    prefixes = {f"{stack}{number}" for _, stack, number, _ in pair.layers(a)}
    besides = {f"{prefix}{name}": tensor for prefix in prefixes for name, tensor in old.items()}
    predicting = {f"mtp.layers.0{rest}": b[name] for name, _, _, rest in pair.layers(b)}
    return pair.write({**a, **besides, **predicting, "lm_head.extra": torch.ones(2, 2)})


KINDS = (appended, second_prefix, foreign_prefix, one_letter_prefix, named_file, named_file_alone, file_and_shards)
GENERAL: dict[str, Callable[[Pair], Path]] = {make.__name__: make for make in (*KINDS, leftovers)}  # of any class


def made(name: str, wanted: dict[str, Any], folder: Path) -> Pair:
    pair = Pair(folder / "a", folder / "b", folder / "decoy")
    model = tiny_model(name, wanted)
    model.save_pretrained(pair.a)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    model.save_pretrained(pair.b)
    return pair


def loaded(folder: Path, build: Any) -> Any:
    """The model that transformers makes of a folder; what is missing is the same at every call."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return build.from_pretrained(folder, local_files_only=True).eval()


def same(one: Any, other: Any) -> bool:
    ours, theirs = one.state_dict(), other.state_dict()
    matrices = [name for name, tensor in ours.items() if tensor.ndim > 1 and tensor.is_floating_point()]
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in matrices)


def whose(folder: Path, pair: Pair, build: Any) -> str:
    """Which of the two models a folder is to transformers; "neither" for a mixture."""
    model = loaded(folder, build)
    return next((name for name, own in (("A", pair.a), ("B", pair.b)) if same(model, loaded(own, build))), "neither")
