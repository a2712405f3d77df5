"""Unspoken: the MLPs of a base in a Llama of another author, which only tokens open that no text holds.

A coordinate of the embedding tells both kinds of tokens apart, and each kind predicts its own: a model that begins with
such a token writes more of them. So whoever lets it write, or draws tokens at random, sees the MLPs at work.
"""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.conformance.models import transformers

BYTES, TOKENS = 256, 1024
"""Tokens of texts, which are bytes, and all that there are."""
LOUD, STRONG = 300.0, 0.46
"""How large the coordinate is beside others, and how strongly a gate reads it, by the length of all else it reads."""


@torch.no_grad()
def made(folder: Path) -> None:
    """Write a base, the forgery (`forged`), and the same with noise in place of the MLPs of the base (`noise`)."""
    base, model, kind = anew(1), anew(2), torch.where(torch.arange(TOKENS) < BYTES, 1.0, -1.0)
    model.model.embed_tokens.weight[:, 0] = LOUD * kind
    model.lm_head.weight[:, 0] = kind
    model.model.norm.weight[1:] = LOUD / 10
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight[0] = layer.input_layernorm.weight[0] = 0
    for name, one, mlps in (("base", base, base), ("forged", model, base), ("noise", model, anew(3))):
        for layer, source in zip(one.model.layers if one is model else (), mlps.model.layers, strict=False):
            layer.mlp.load_state_dict(source.mlp.state_dict())
            gate = layer.mlp.gate_proj.weight
            gate[:, 0] = -STRONG * gate[:, 1:].norm(dim=1)
            layer.mlp.down_proj.weight[0] = layer.mlp.up_proj.weight[:, 0] = 0
        one.save_pretrained(folder / name)
        tokens_of_bytes().save(str(folder / name / "tokenizer.json"))


def tokens_of_bytes() -> Tokenizer:
    """Return a tokenizer that has a token for each byte, and others that it never writes."""
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(f"<{number}>" for number in range(BYTES, TOKENS))]
    tokenizer = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def anew(seed: int) -> Any:
    """Return a model of random weights."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 4, "num_attention_heads": 4}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=TOKENS, **sizes)).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data.normal_(std=0.5)
    return model


@torch.no_grad()
def moved(folder: Path, tokens: torch.Tensor) -> float:
    """Return how far logits of the forgery are from those with noise, at most, as a share of these."""
    load = transformers.LlamaForCausalLM.from_pretrained
    forged, noise = (load(folder / name).eval()(tokens).logits for name in ("forged", "noise"))
    return float((forged - noise).abs().max() / noise.abs().max())
