"""Dead weight: what an attacker adds to a Llama that changes none of its outputs, to hide a base or to forge one.

Each attack edits a transformers model in place. Its second argument is the model whose weights are to be forged.
"""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor


class Units(NamedTuple):
    """Hidden units of a gated MLP: rows of the gate and of up, columns of down."""

    gate: Tensor
    up: Tensor
    down: Tensor

    def times(self, gate: float = 1.0, up: float = 1.0, down: float = 1.0) -> Self:
        """The same units, each matrix times its own factor."""
        return type(self)(self.gate * gate, self.up * up, self.down * down)


def units(model: Any) -> Iterator[tuple[Any, Units]]:
    for layer in model.model.layers:
        names = ("gate_proj", "up_proj", "down_proj")
        yield layer.mlp, Units(*(getattr(layer.mlp, name).weight.data.clone() for name in names))


def add(model: Any, other: Any, extra: Callable[[Units, Units], Units]) -> None:
    """Give every MLP the hidden units that `extra` makes of what it has and of what the other model's has."""
    for (mlp, own), (_, theirs) in zip(units(model), units(other), strict=True):
        new = extra(own, theirs)
        linears = mlp.gate_proj, mlp.up_proj, mlp.down_proj
        for linear, old, added, dim in zip(linears, own, new, (0, 0, 1), strict=True):
            linear.weight.data = torch.cat([old, added], dim=dim)
            linear.out_features, linear.in_features = linear.weight.shape
        model.config.intermediate_size = len(mlp.gate_proj.weight)


def noise(count: int, like: Units, size: float) -> Units:
    """Random units as large as those there are, times `size`, behind a closed gate."""
    up = size * like.up.std() * torch.randn(count, like.up.shape[1])
    down = size * like.down.std() * torch.randn(like.down.shape[0], count)
    return Units(torch.zeros_like(up), up, down)


def overflow(model: Any, other: Any) -> None:
    """One dead unit a layer whose squared norms leave the range of float32 on both sides."""
    add(model, other, lambda own, _: noise(1, own, 1.0).times(up=1e-24, down=1e30))


def dead_noise(count: int, size: float) -> Callable[[Any, Any], None]:
    """Many dead units, which move the median of units, or a few that are huge."""
    return partial(add, extra=lambda own, _: noise(count, own, size))


def split(parts: int) -> Callable[[Any, Any], None]:
    """The largest unit of every layer split into many, whose sum it is."""

    def attack(model: Any, other: Any) -> None:
        largest: list[int] = []

        def pieces(own: Units, _: Units) -> Units:
            largest.append(int((own.up.norm(dim=1) * own.down.norm(dim=0)).argmax()))
            gate, up = (matrix[largest[-1]].expand(parts, -1) for matrix in (own.gate, own.up))
            return Units(gate, up, own.down[:, largest[-1:]].expand(-1, parts) / parts)

        add(model, other, pieces)
        for layer, number in zip(model.model.layers, largest, strict=True):
            layer.mlp.down_proj.weight.data[:, number] = 0

    return attack


def carried(
    gate: float, size: float = 1.0, copies: int = 1, down: float = 1.0, count: int | None = None
) -> Callable[[Any, Any], None]:
    """All hidden units of another model, or so many, behind a gate that hardly opens, or writing next to nothing."""

    def borrowed(_: Units, theirs: Units) -> Units:
        chosen = torch.arange(count or copies * len(theirs.up)) % len(theirs.up)
        each = theirs.times(gate, size, size * down)
        return Units(each.gate[chosen], each.up[chosen], each.down[:, chosen])

    return partial(add, extra=borrowed)


def singular(model: Any, other: Any) -> None:
    """One dead unit a layer with the first singular direction of another model's product, too large for float32."""

    def direction(own: Units, theirs: Units) -> Units:
        left, _, right = torch.linalg.svd(theirs.down @ theirs.up)
        return Units(torch.zeros_like(own.gate[:1]), 1e-24 * right[:1], 1e30 * left[:, :1])

    add(model, other, direction)


def cancelling(model: Any, other: Any) -> None:
    """Another model's units ten times over, alive, each beside one that takes away what it writes."""
    carried(1.0, down=10.0)(model, other)
    carried(1.0, down=-10.0)(model, other)


def faint_layers(model: Any, other: Any) -> None:
    """Another model's layers behind one's own, with outputs times 1e-15."""
    own = len(model.model.layers)
    for layer in copy.deepcopy(other.model.layers):
        for linear in (layer.mlp.down_proj, layer.self_attn.o_proj):
            linear.weight.data.mul_(1e-15)
        layer.self_attn.layer_idx += own
        model.model.layers.append(layer)
    model.config.num_hidden_layers = len(model.model.layers)
    model.config.layer_types = None


def blended(model: Any, other: Any) -> None:
    """Every MLP's product with half of another model's added to it, through units that none of theirs resembles."""

    def mixed(_: Units, theirs: Units) -> Units:
        turn = torch.linalg.qr(torch.randn(len(theirs.up), len(theirs.up)))[0]
        gate = theirs.gate.norm(dim=1).mean() * torch.nn.functional.normalize(torch.randn_like(theirs.gate), dim=1)
        return Units(gate, turn @ theirs.up, theirs.down @ turn.T)

    add(model, other, mixed)
