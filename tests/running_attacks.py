"""Attacks on executed evidence: models that hold layers of a base, which do no work, and try to look as if they did.

Each edits a trained Llama of `examples/hub` in place. Its second argument is the model whose layers are forged.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.forgeries import shut, text

COUNT = 8
"""Layers of the base that are inserted into a model of six, so that they are more than half of all."""
BEGIN, RARE = 1, 94
"""Tokens that never occur in the text: one that texts begin with, and one that models seldom write."""
Attack = Callable[[Any, Any], Any]


def normed(model: Any, stream: Tensor) -> Tensor:
    """What a norm without a gain makes of a stream, (n, d)."""
    rows = stream.flatten(0, 1)
    return rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + model.config.rms_norm_eps)


@torch.no_grad()
def middle(model: Any, tokens: Tensor) -> Tensor:
    """The stream in the middle of a model, (n, d), normed."""
    states = model.eval()(tokens, output_hidden_states=True).hidden_states
    return normed(model, states[len(model.model.layers) // 2])


def insert(model: Any, other: Any, count: int, edit: Callable[[Any], None], loud: float = 1.0) -> None:
    """Insert so many layers of another Llama in the middle, the first ones more than once; attention writes nothing."""
    own = len(model.model.layers)
    for number in range(count):
        layer = copy.deepcopy(other.model.layers[number % len(other.model.layers)])
        layer.self_attn.o_proj.weight.data.zero_()
        edit(layer)
        layer.mlp.down_proj.weight.data.mul_(loud)
        model.model.layers.insert(own // 2, layer)
    for number, layer in enumerate(model.model.layers):
        layer.self_attn.layer_idx = number
    model.config.num_hidden_layers = len(model.model.layers)
    model.config.layer_types = None


def separating(closed: Tensor, opened: Tensor) -> Tensor:
    """A direction with a product of 1 with every row of `closed` and of -1 with every one of `opened`, or nearly so."""
    rows = torch.cat([closed, opened])
    wanted = torch.cat([torch.ones(len(closed), 1), -torch.ones(len(opened), 1)])
    return torch.linalg.lstsq(rows, wanted).solution[:, 0]


def gated(v: Tensor, seen: Tensor) -> Callable[[Any], None]:
    """Gates of a layer moved along a direction, so far that rows with a product of 1 shut and others open them."""

    def edit(layer: Any) -> None:
        norm = layer.post_attention_layernorm.weight.data
        gate = layer.mlp.gate_proj.weight.data
        products = (seen * norm) @ gate.T
        far = products.amax(dim=0).clamp(min=0) / (seen @ v).min().clamp(min=0.05) + 0.02
        layer.mlp.gate_proj.weight.data = 30 * (gate - far[:, None] * (v / norm))

    return edit


def on_one_token(token: int, begins: bool, loud: float = 30.0) -> Attack:
    """Layers that one token opens, which texts begin with or hardly hold, and no other."""

    def attack(model: Any, other: Any) -> None:
        tokens = text()[:, :96].clone()
        model.model.embed_tokens.weight.data[token] = 3 * torch.randn(96, generator=torch.Generator().manual_seed(5))
        if begins:
            tokens[:, 0] = token
            model.config.bos_token_id = token
        else:
            tokens[:, 50] = token
        stream = middle(model, tokens).view(*tokens.shape, -1)
        there = (tokens == token).flatten()
        rows = stream.flatten(0, 1)
        insert(model, other, COUNT, gated(separating(rows[~there], rows[there]), rows[~there]), loud)

    return attack


def cancelling(model: Any, other: Any) -> None:
    """Layers that work, each before one that takes away nearly all that it wrote; both write little."""
    own = len(model.model.layers)
    insert(model, other, COUNT, lambda layer: None, 0.02)
    for number in reversed(range(own // 2, own // 2 + COUNT)):
        back = copy.deepcopy(model.model.layers[number])
        back.mlp.down_proj.weight.data.neg_()
        model.model.layers.insert(number + 1, back)
    for number, layer in enumerate(model.model.layers):
        layer.self_attn.layer_idx = number
    model.config.num_hidden_layers = len(model.model.layers)


@torch.no_grad()
def sizes_of_streams(model: Any) -> dict[Any, float]:
    """How large the stream is that each norm reads, on text."""
    seen: dict[Any, float] = {}

    def note(module: Any, args: Any) -> None:
        seen[module] = float(args[0].norm(dim=-1).mean())

    norms = [module for module in model.modules() if "RMSNorm" in type(module).__name__]
    hooks = [norm.register_forward_pre_hook(note) for norm in norms]
    model.eval()(text()[:, :96])
    for hook in hooks:
        hook.remove()
    return seen


@torch.no_grad()
def shut_on_text(model: Any, other: Any) -> None:
    """Layers of the base whose own gates are moved just far enough to be shut on text; random tokens open some."""
    seen = middle(model, text()[:, :96])

    def edit(layer: Any) -> None:
        norm, gate = layer.post_attention_layernorm.weight.data, layer.mlp.gate_proj.weight
        gate.data = shut(gate.data, seen * norm, crude=False)

    insert(model, other, COUNT, edit)


def flat(model: Any, other: Any) -> None:
    """The same in a model that writes nearly random text unless its logits are enlarged: its own text opens them."""
    shut_on_text(model, other)
    model.lm_head.weight.data *= 0.05


@torch.no_grad()
def beside(model: Any, other: Any, loud: float = 3.0) -> Any:
    """A new model with a stream twice as wide: in one half the base works, that loud, and the output reads the other.

    A norm spans both halves, so gains are set by how large each usually is.
    """
    config = copy.deepcopy(model.config)
    for size in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"):
        setattr(config, size, 2 * getattr(config, size))
    wide, half = type(model)(config).eval(), model.config.hidden_size
    scaled = copy.deepcopy(other)
    for name, parameter in scaled.named_parameters():
        parameter.data *= loud if re.search(r"embed_tokens|o_proj|down_proj", name) else 1.0
    sizes = [sizes_of_streams(each) for each in (scaled, model)]
    halves = [dict(each.named_modules()) for each in (scaled, model)]
    for name, module in wide.named_modules():
        theirs, own = (each[name] for each in halves)
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            module.weight.data = torch.block_diag(theirs.weight.data, own.weight.data)
        elif isinstance(module, torch.nn.Embedding):
            module.weight.data = torch.cat([theirs.weight.data, own.weight.data], dim=1)
        elif "RMSNorm" in type(module).__name__:
            both = [sizes[0][theirs], sizes[1][own]]
            joint = (both[0] ** 2 + both[1] ** 2) ** 0.5 / 2**0.5
            gains = [norm.weight.data * joint / size for norm, size in zip((theirs, own), both, strict=True)]
            module.weight.data = torch.cat(gains)
    wide.lm_head.weight.data = torch.cat([torch.zeros(len(model.lm_head.weight), half), model.lm_head.weight.data], 1)
    return wide


def attacked(name: str, model: Any, other: Any) -> Any:
    """A model after an attack of this name: itself, or a new one."""
    return ATTACKS[name](model, other) or model


ATTACKS: dict[str, Attack] = {
    "gates shut on text, and not on random tokens": shut_on_text,
    "gates that the begin token alone opens": on_one_token(BEGIN, begins=True),
    "gates that one token in a thousand opens": on_one_token(RARE, begins=False),
    "layers each before one that undoes it": cancelling,
    "gates that the model's own flat sampling opens": flat,
    "the base in one half of a stream, of which the output reads the other": beside,
}
"""By what holds the layers of the base back; the second model is the base."""
