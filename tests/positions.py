"""Positions: layers of a base that act on some positions of a text alone, in a GPT-2 of another author.

A coordinate of the stream tells whether a token stands among the first ones, as its embedding of positions says. The
gates of the inserted layers read it: they are open on one side of a position, and shut for good on the other.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel

LENGTH = 256
LONGEST = 2 * LENGTH
LOUD = 30.0
"""How many times as large as others the coordinate is that tells where a token stands."""
STRONG = 0.46
"""How strongly a unit reads that coordinate, by the length of all else that it reads."""
ACTING = {"layers that act on the first 256 tokens alone": 1.0, "layers that act only beyond 256 tokens": -1.0}
"""By what the layers of the base do, the sign of that coordinate where they act."""


def made(name: str, folder: Path) -> None:
    """Write a base, a model that holds its layers so (`forged`), and the same model without them (`alone`)."""
    other, model = anew(1, layers=4), anew(2, layers=3)
    other.save_pretrained(folder / "base")
    placed(model)
    model.save_pretrained(folder / "alone")
    insert(model, other, ACTING[name])
    model.save_pretrained(folder / "forged")


@torch.no_grad()
def moved(folder: Path) -> dict[str, float]:
    """Return how far logits are from those of the model without the inserted layers, at most, as a share of these."""
    forged, alone = (GPT2LMHeadModel.from_pretrained(folder / name).eval() for name in ("forged", "alone"))
    tokens = torch.randint(alone.config.vocab_size, (2, LONGEST), generator=torch.Generator().manual_seed(8))
    after, before = (model(tokens).logits for model in (forged, alone))
    shares = (after - before).abs().amax(dim=(0, 2)) / before.abs().max()
    return {"within": float(shares[:LENGTH].max()), "beyond": float(shares[LENGTH:].max())}


def anew(seed: int, layers: int) -> Any:
    """Return a model of random weights."""
    torch.manual_seed(seed)
    sizes = {"n_embd": 64, "n_head": 4, "n_inner": 192, "vocab_size": 128, "bos_token_id": 0}
    model = GPT2LMHeadModel(GPT2Config(n_layer=layers, n_positions=LONGEST, **sizes))
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data.normal_(std=0.2)
    return model


@torch.no_grad()
def placed(model: Any) -> None:
    """Let the first coordinate of the stream say where a token stands, and nothing else write there."""
    width = model.config.n_embd
    table = 0.2 * torch.randn(LONGEST, width)
    table[:, 0] = LOUD * torch.where(torch.arange(LONGEST) < LENGTH, 1.0, -1.0)
    model.transformer.wpe = torch.nn.Embedding(LONGEST, width, _weight=table)
    model.transformer.wte.weight[:, 0] = 0
    for layer in model.transformer.h:
        close(layer)


@torch.no_grad()
def close(layer: Any) -> None:
    """Keep a layer from writing to the first coordinate."""
    for matrix in (layer.attn.c_proj, layer.mlp.c_proj):
        matrix.weight[:, 0] = 0
        matrix.bias[0] = 0


@torch.no_grad()
def told(model: Any, layer: Any) -> float:
    """How large the first coordinate is behind the second norm of a layer, in the mean of the first tokens."""
    tokens = torch.randint(model.config.vocab_size, (2, LENGTH), generator=torch.Generator().manual_seed(7))
    stream = model.eval()(tokens, output_hidden_states=True).hidden_states[-2]
    return float(layer.ln_2(stream)[..., 0].mean())


@torch.no_grad()
def insert(model: Any, other: Any, sign: float) -> None:
    """Insert layers of another model at the end, whose attention writes nothing and whose units act on one side."""
    for source in other.transformer.h:
        layer = copy.deepcopy(source)
        close(layer)
        layer.attn.c_proj.weight.zero_()
        for bias in (layer.attn.c_proj.bias, layer.mlp.c_proj.bias):
            bias.zero_()
        layer.ln_2.weight[0], layer.ln_2.bias[0] = 1.0, 0.0
        read = layer.mlp.c_fc
        reads = STRONG * read.weight[1:].norm(dim=0)
        read.weight[0] = sign * reads
        read.bias.sub_(reads * told(model, layer))
        model.transformer.h.append(layer)
    model.config.n_layer = len(model.transformer.h)
