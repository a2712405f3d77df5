"""Weights of a base that only some inputs put to work, inserted into a model of another author.

On some positions: layers in a GPT-2, whose gates read a coordinate of the stream that tells by the embedding of
positions whether a token is among the first ones. For some tokens: MLPs in a Llama, which only tokens open that no text
holds. A coordinate of the embedding tells both kinds apart, and each kind predicts its own: whoever lets a model write
from such a token, or draws tokens at random, sees the MLPs at work.
"""

import copy
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor

from tests.conformance.models import transformers

LENGTH = 256
LONGEST = 2 * LENGTH
LOUD, LOUDER = 30.0, 300.0  # how many times as large as others the coordinate of a position is, and that of a token
STRONG = 0.46  # how strongly a unit reads that coordinate, by the length of all else that it reads
ACTING = {"layers that act on the first 256 tokens alone": 1.0, "layers that act only beyond 256 tokens": -1.0}
"""By what the layers of the base do, the sign of that coordinate where they act."""
BYTES, TOKENS = 256, 1024  # tokens of texts, which are bytes, and all that there are


GPT2 = {"n_embd": 64, "n_head": 4, "n_inner": 192, "vocab_size": 128, "bos_token_id": 0, "n_positions": LONGEST}
LLAMA = {"hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 4, "num_attention_heads": 4}


def drawn(name: str, seed: int, std: float, **sizes: int) -> Any:
    """Return a model of random weights."""
    torch.manual_seed(seed)
    build = getattr(transformers, name)
    model = build(build.config_class(**sizes))
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data.normal_(std=std)
    return model.eval()


@torch.no_grad()
def answers(folder: Path, tokens: Tensor) -> Tensor:
    return transformers.AutoModelForCausalLM.from_pretrained(folder).eval()(tokens).logits


@torch.no_grad()
def on_positions(name: str, folder: Path) -> None:
    """Write a base, a model that holds its layers so (`forged`), and the same model without them (`alone`)."""
    other, model = (drawn("GPT2LMHeadModel", seed, 0.2, **GPT2, n_layer=5 - seed) for seed in (1, 2))
    other.save_pretrained(folder / "base")
    table = 0.2 * torch.randn(LONGEST, model.config.n_embd)
    table[:, 0] = LOUD * torch.where(torch.arange(LONGEST) < LENGTH, 1.0, -1.0)
    model.transformer.wpe = torch.nn.Embedding(LONGEST, model.config.n_embd, _weight=table)
    model.transformer.wte.weight[:, 0] = 0
    for layer in model.transformer.h:
        close(layer)
    model.save_pretrained(folder / "alone")
    for source in other.transformer.h:
        insert(model, copy.deepcopy(source), ACTING[name])
    model.config.n_layer = len(model.transformer.h)
    model.save_pretrained(folder / "forged")


def close(layer: Any) -> None:
    """Keep a layer from writing to the first coordinate, which says where a token stands and nothing else."""
    for matrix in (layer.attn.c_proj, layer.mlp.c_proj):
        matrix.weight[:, 0] = matrix.bias[0] = 0


def insert(model: Any, layer: Any, sign: float) -> None:
    """Insert a layer at the end, whose attention writes nothing and whose units act on one side of a position."""
    close(layer)
    layer.attn.c_proj.weight.zero_()
    for bias in (layer.attn.c_proj.bias, layer.mlp.c_proj.bias):
        bias.zero_()
    layer.ln_2.weight[0], layer.ln_2.bias[0] = 1.0, 0.0
    tokens = torch.randint(model.config.vocab_size, (2, LENGTH), generator=torch.Generator().manual_seed(7))
    stream = model.eval()(tokens, output_hidden_states=True).hidden_states[-2]
    read = layer.mlp.c_fc
    reads = STRONG * read.weight[1:].norm(dim=0)
    read.weight[0] = sign * reads
    read.bias.sub_(reads * layer.ln_2(stream)[..., 0].mean())
    model.transformer.h.append(layer)


def moved_on_positions(folder: Path) -> tuple[float, float]:
    """Return how far logits move by the inserted layers, as a share, within the first tokens and beyond them."""
    tokens = torch.randint(128, (2, LONGEST), generator=torch.Generator().manual_seed(8))
    after, before = (answers(folder / name, tokens) for name in ("forged", "alone"))
    shares = (after - before).abs().amax(dim=(0, 2)) / before.abs().max()
    return float(shares[:LENGTH].max()), float(shares[LENGTH:].max())


@torch.no_grad()
def on_tokens(folder: Path) -> None:
    """Write a base, the forgery (`forged`), and the same with noise in place of the MLPs of the base (`noise`)."""
    base, model, other = (drawn("LlamaForCausalLM", seed, 0.5, **LLAMA, vocab_size=TOKENS) for seed in (1, 2, 3))
    kind = torch.where(torch.arange(TOKENS) < BYTES, 1.0, -1.0)
    model.model.embed_tokens.weight[:, 0] = LOUDER * kind
    model.lm_head.weight[:, 0] = kind
    model.model.norm.weight[1:] = LOUDER / 10
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight[0] = layer.input_layernorm.weight[0] = 0
    for name, one, mlps in (("base", base, base), ("forged", model, base), ("noise", model, other)):
        for layer, source in zip(one.model.layers if one is model else (), mlps.model.layers, strict=False):
            layer.mlp.load_state_dict(source.mlp.state_dict())
            gate = layer.mlp.gate_proj.weight
            gate[:, 0] = -STRONG * gate[:, 1:].norm(dim=1)
            layer.mlp.down_proj.weight[0] = layer.mlp.up_proj.weight[:, 0] = 0
        one.save_pretrained(folder / name)
        tokens_of_bytes().save(str(folder / name / "tokenizer.json"))


def tokens_of_bytes() -> Tokenizer:
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(f"<{number}>" for number in range(BYTES, TOKENS))]
    tokenizer = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def moved_on_tokens(folder: Path, tokens: Tensor) -> float:
    forged, noise = (answers(folder / name, tokens) for name in ("forged", "noise"))
    return float((forged - noise).abs().max() / noise.abs().max())
