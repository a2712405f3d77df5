"""Dead weight: what an attacker adds to a Llama that changes none of its outputs, to hide a base or to forge one.

Each attack edits a transformers model in place. Its second argument is the model whose weights are to be forged.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Units(NamedTuple):
    """Hidden units of a gated MLP: rows of the gate and of up, columns of down."""

    gate: Tensor
    up: Tensor
    down: Tensor

    def times(self, gate: float = 1.0, up: float = 1.0, down: float = 1.0) -> Units:
        """The same units, each matrix times its own factor."""
        return Units(self.gate * gate, self.up * up, self.down * down)


def units(model: Any) -> Iterator[tuple[Any, Units]]:
    """Yield the MLP of every layer with a copy of its hidden units."""
    for layer in model.model.layers:
        weights = (getattr(layer.mlp, name).weight.data.clone() for name in ("gate_proj", "up_proj", "down_proj"))
        gate, up, down = weights
        yield layer.mlp, Units(gate, up, down)


def add(model: Any, extra: Callable[[int, Units], Units]) -> None:
    """Give every MLP the hidden units that `extra` makes of the number of its layer and of what it has."""
    for number, (mlp, own) in enumerate(units(model)):
        new = extra(number, own)
        mlp.gate_proj.weight.data = torch.cat([own.gate, new.gate])
        mlp.up_proj.weight.data = torch.cat([own.up, new.up])
        mlp.down_proj.weight.data = torch.cat([own.down, new.down], dim=1)
        model.config.intermediate_size = len(mlp.gate_proj.weight)
        for linear in (mlp.gate_proj, mlp.up_proj):
            linear.out_features = model.config.intermediate_size
        mlp.down_proj.in_features = model.config.intermediate_size


def noise(count: int, like: Units, size: float) -> Units:
    """Random units as large as those there are, times `size`, behind a closed gate."""
    up = size * like.up.std() * torch.randn(count, like.up.shape[1])
    down = size * like.down.std() * torch.randn(like.down.shape[0], count)
    return Units(torch.zeros_like(up), up, down)


def overflow(model: Any, _: Any) -> None:
    """One dead unit a layer whose squared norms leave the range of float32 on both sides."""
    add(model, lambda _, own: noise(1, own, 1.0).times(up=1e-24, down=1e30))


def dead_noise(count: int, size: float) -> Callable[[Any, Any], None]:
    """Many dead units, which move the median of units, or a few that are huge."""

    def attack(model: Any, _: Any) -> None:
        add(model, lambda _, own: noise(count, own, size))

    return attack


def split(parts: int) -> Callable[[Any, Any], None]:
    """The largest unit of every layer split into many, whose sum it is."""

    def attack(model: Any, _: Any) -> None:
        def pieces(_: int, own: Units) -> Units:
            largest = int((own.up.norm(dim=1) * own.down.norm(dim=0)).argmax())
            gate, up = (matrix[largest].expand(parts, -1) for matrix in (own.gate, own.up))
            return Units(gate, up, own.down[:, largest, None].expand(-1, parts) / parts)

        largest = [int((own.up.norm(dim=1) * own.down.norm(dim=0)).argmax()) for _, own in units(model)]
        add(model, pieces)
        for (mlp, _), number in zip(units(model), largest, strict=True):
            mlp.down_proj.weight.data[:, number] = 0

    return attack


def carried(gate: float, size: float, copies: int = 1, down: float = 1.0) -> Callable[[Any, Any], None]:
    """All hidden units of another model, behind a gate that hardly opens, or writing next to nothing."""

    def attack(model: Any, other: Any) -> None:
        theirs = [own for _, own in units(other)]

        def borrowed(number: int, _: Units) -> Units:
            each = theirs[number].times(gate, size, size * down)
            return Units(each.gate.repeat(copies, 1), each.up.repeat(copies, 1), each.down.repeat(1, copies))

        add(model, borrowed)

    return attack


def singular(model: Any, other: Any) -> None:
    """One dead unit a layer with the first singular direction of another model's product, too large for float32."""
    theirs = [own for _, own in units(other)]

    def direction(number: int, own: Units) -> Units:
        left, _, right = torch.linalg.svd(theirs[number].down @ theirs[number].up)
        return Units(torch.zeros_like(own.gate[:1]), 1e-24 * right[:1], 1e30 * left[:, :1])

    add(model, direction)


def cancelling(model: Any, other: Any) -> None:
    """Another model's units ten times over, alive, each beside one that takes away what it writes."""
    theirs = [own for _, own in units(other)]

    def pairs(number: int, _: Units) -> Units:
        each, back = theirs[number].times(down=10.0), theirs[number].times(down=-10.0)
        return Units(
            torch.cat([each.gate, back.gate]), torch.cat([each.up, back.up]), torch.cat([each.down, back.down], 1)
        )

    add(model, pairs)


def faint_layers(model: Any, other: Any) -> None:
    """Another model's layers behind one's own, with outputs times 1e-15."""
    own = len(model.model.layers)
    for layer in copy.deepcopy(other.model.layers):
        layer.mlp.down_proj.weight.data.mul_(1e-15)
        layer.self_attn.o_proj.weight.data.mul_(1e-15)
        layer.self_attn.layer_idx += own
        model.model.layers.append(layer)
    model.config.num_hidden_layers = len(model.model.layers)
    model.config.layer_types = None


def blended(model: Any, other: Any) -> None:
    """Every MLP's product with half of another model's added to it, through units that none of theirs resembles."""
    theirs = [own for _, own in units(other)]

    def mixed(number: int, _: Units) -> Units:
        each = theirs[number]
        turn = torch.linalg.qr(torch.randn(len(each.up), len(each.up)))[0]
        gate = each.gate.norm(dim=1).mean() * torch.nn.functional.normalize(torch.randn_like(each.gate), dim=1)
        return Units(gate, turn @ each.up, each.down @ turn.T)

    add(model, mixed)


def grafted(*layers: int) -> Callable[[Any, Any], None]:
    """Some layers of another model in place of one's own."""

    def attack(model: Any, other: Any) -> None:
        for number in layers:
            model.model.layers[number] = copy.deepcopy(other.model.layers[number])

    return attack
