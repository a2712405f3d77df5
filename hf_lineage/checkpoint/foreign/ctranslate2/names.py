"""CTranslate2: the class whose layers a file has, its configuration, and the names of its tensors on the Hub's disk."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from hf_lineage.architecture import Shape, registry
from hf_lineage.checkpoint.foreign.pieces import Piece, name_in_out, split_rows
from hf_lineage.errors import NothingToCompare, printable

FILE = "ctranslate2/models.yaml"
LAYER = re.compile(r"(?P<outer>(?P<stack>encoder|decoder)/layer_(?P<layer>\d{1,6}))/(?P<rest>.+)")
CROSS = "attention/linear_0/weight"
"""A part of a layer that also reads an encoder."""
KINDS = {"gamma": "weight", "beta": "bias"}
"""What CTranslate2 calls the two tensors of a norm."""


class _Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"name": "class"}):
    """What tells a class by the switches of its file."""

    name: str
    specification: str
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    where: dict[str, int] = {}
    settings: dict[str, str] = {}
    activation: dict[str, str] = {}
    constants: dict[str, registry.Setting] = {}


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    activations: tuple[str, ...]
    models: tuple[_Model, ...]


@dataclass(frozen=True)
class Contents:
    """What a file holds, by CTranslate2's own names."""

    specification: str
    shapes: Mapping[str, Shape]
    numbers: Mapping[str, int | float]

    def whole(self, name: str, default: int = 0) -> int:
        """Return a whole number of the file; the default for any other value."""
        value = self.numbers.get(name)
        return value if isinstance(value, int) else default


_table = functools.partial(registry.registry_table, FILE, _Table)


def models() -> Collection[str]:
    """Return the classes whose layers are recognised."""
    return {model.name for model in _table().models}


def config_of(contents: Contents) -> dict[str, Any]:
    """Return the configuration that a file stands for, as `config.json` would say it.

    Raise NothingToCompare for a model of a kind that is not read.
    """
    model = next((model for model in _table().models if _fits(model, contents)), None)
    if model is None:
        raise NothingToCompare(
            f"the CTranslate2 file is a {printable(contents.specification, 50)} with layers that hf-lineage cannot "
            "read; check the safetensors release instead"
        )
    config: dict[str, Any] = {key: contents.whole(source) for key, source in model.settings.items()}
    for key, source in model.activation.items():
        number = contents.whole(source, -1)
        names = _table().activations
        config |= {key: names[number]} if 0 <= number < len(names) else {}
    return {"architectures": [model.name], **config, **model.constants}


def _fits(model: _Model, contents: Contents) -> bool:
    names = contents.shapes.keys() | contents.numbers.keys()
    return (
        model.specification == contents.specification
        and all(name in names for name in model.has)
        and not any(name in names for name in model.lacks)
        and all(contents.numbers.get(name) == value for name, value in model.where.items())
    )


def name_tensors(factorization: registry.Factorization, contents: Contents) -> Iterator[Piece]:
    """Yield every tensor by its name on the Hub's disk; what CTranslate2 joined is taken apart.

    A tensor that is in no branch keeps its own name, with dots, under the prefix of its layer. Raise NothingToCompare
    where the heads do not divide what is joined.
    """
    stacks = registry.as_stacks(factorization.layers)
    names = {reads: _names(factorization, reads) for reads in (False, True)}
    turned = name_in_out(factorization)
    for stored, shape in contents.shapes.items():
        layer = LAYER.fullmatch(stored)
        patterns = layer and (stacks.get(layer["stack"]) or stacks.get(""))
        if not layer or not patterns:
            yield Piece(stored.replace("/", "."), stored)
            continue
        prefix = patterns[0].replace("{layer}", layer["layer"])
        part, _, kind = layer["rest"].rpartition("/")
        named = names[f"{layer['outer']}/{CROSS}" in contents.shapes].get(part)
        if named is None:
            yield Piece(f"{prefix}.{_elsewhere(factorization, layer['rest'])}", stored)
            continue
        rows = split_rows(shape[0], *_heads(contents, layer)) if len(named) > 1 else (None,)
        for name, own in zip(named, rows, strict=True):
            flipped = name in turned and len(shape) == 2
            yield Piece(f"{prefix}.{name}.{KINDS.get(kind, kind)}", stored, own, flipped)


def _heads(contents: Contents, layer: re.Match[str]) -> tuple[int, int]:
    heads = contents.whole(f"{layer['stack']}/num_heads")
    return heads, contents.whole(f"{layer['outer']}/self_attention/num_heads_kv", heads)


def _names(factorization: registry.Factorization, reads: bool) -> dict[str, tuple[str, ...]]:
    """The parts of a layer in CTranslate2 -> their names relative to the layer, several where they are joined."""
    mlp, attention = (_set(sets, reads) for sets in (factorization.branches.mlp, factorization.branches.attention))
    stored = {slot.role: slot.tensor for matrices in (mlp, attention) if matrices for slot in registry.slots(matrices)}
    joined = tuple(dict.fromkeys(stored[role] for role in registry.ATTENTION_ROLES[:3] if role in stored))
    names = {"self_attention/linear_0": joined, "self_attention/linear_1": (stored.get("output", ""),)}
    names |= {"ffn/linear_0": (stored.get("gate") or stored.get("up", ""),), "ffn/linear_1": (stored.get("down", ""),)}
    if "gate" in stored:
        names["ffn/linear_0_noact"] = (stored["up"],)
    if attention and (norm := _first(attention.norm)):
        names["self_attention/layer_norm"] = (norm,)
    if mlp and (norm := _first(mlp.norm)):
        names["ffn/layer_norm"] = (norm,)
    if mlp and not mlp.norm and (fed_by := registry.as_names(mlp.fed_by)):
        names["self_attention/layer_norm"] = (str(fed_by[-1]),)
        if reads:
            names["attention/layer_norm"] = (str(fed_by[0]),)
    return {part: named for part, named in names.items() if all(named) and named}


def _set(sets: Any, reads: bool) -> registry.MatrixSet | None:
    """The matrices of a branch; of several kinds of layers the first is the one that reads an encoder too."""
    known = registry.as_sets(sets)
    return known[0 if reads else -1] if known else None


def _first(norms: registry.Norms) -> str | None:
    return next(filter(None, registry.as_names(norms)), None)


def _elsewhere(factorization: registry.Factorization, rest: str) -> str:
    """The name of a tensor that is in no branch, as the factorization ignores it where it reads an encoder."""
    ignored = next((name for name in factorization.ignores if name.endswith(".*")), None)
    dotted = rest.replace("/", ".")
    return ignored.replace("*", dotted) if ignored and rest.startswith("attention/") else dotted
