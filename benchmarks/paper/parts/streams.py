"""Streams: the matrices of a Llama or a GPT-2 by what they do to its residual stream, as views that can be edited.

Readers are (out, d) and writers (d, in) whatever the class stores, so that an edit is written once for both families.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Read:
    """One norm and the matrices (out, d) that read what it makes of the stream."""

    norm: Any
    readers: tuple[Tensor, ...]


@dataclass(frozen=True)
class Stream:
    """Everything that touches the residual stream of one model."""

    reads: tuple[Read, ...]
    writers: tuple[Tensor, ...]  # (d, in) each
    vectors: tuple[Tensor, ...]  # (d,) each: biases of writers
    embeddings: tuple[Tensor, ...]  # (n, d) each: of tokens and of positions
    keeps_mean: bool
    """Whether its norms are LayerNorms: they subtract the mean, so that only a turn which keeps it commutes."""

    @property
    def width(self) -> int:
        return self.writers[0].shape[0]

    @property
    def readers(self) -> list[Tensor]:
        """Everything with a column for each residual coordinate (n, d), embeddings first."""
        return [*self.embeddings, *(reader for read in self.reads for reader in read.readers)]

    @property
    def shifts(self) -> list[Tensor]:
        """The biases (d,) of norms that have any."""
        return [read.norm.bias.data for read in self.reads if getattr(read.norm, "bias", None) is not None]


@dataclass(frozen=True)
class Heads:
    """The attention of one layer, a head along the first axis: g query heads share each of n key and value heads."""

    query: Tensor  # (n, g, k, d)
    key: Tensor  # (n, k, d)
    value: Tensor  # (n, k, d)
    output: Tensor  # (n, g, k, d), the transpose of what writes the stream
    biases: tuple[Tensor, ...]  # of query (n, g, k), key (n, k) and value (n, k); none in a Llama
    rotary: bool


def is_gpt2(model: Any) -> bool:
    """Return whether a model is a GPT-2; the other family is Llama."""
    return bool(model.config.model_type == "gpt2")


def layers(model: Any) -> nn.ModuleList:
    found: nn.ModuleList = model.transformer.h if is_gpt2(model) else model.model.layers
    return found


def set_layers(model: Any, chosen: list[Any]) -> None:
    """Give a model these layers in this order."""
    for number, layer in enumerate(chosen):
        (layer.attn if is_gpt2(model) else layer.self_attn).layer_idx = number
    if is_gpt2(model):
        model.transformer.h = nn.ModuleList(chosen)
        model.config.n_layer = len(chosen)
    else:
        model.model.layers = nn.ModuleList(chosen)
        model.config.num_hidden_layers = len(chosen)
        model.config.layer_types = None


def untied(model: Any) -> None:
    """Give a model an unembedding of its own."""
    if model.config.tie_word_embeddings:
        model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone(), requires_grad=False)
        model.config.tie_word_embeddings = False


def stream(model: Any) -> Stream:
    """Return everything that touches the residual stream; a tied unembedding is untied."""
    untied(model)
    return _gpt2(model) if is_gpt2(model) else _llama(model)


def _llama(model: Any) -> Stream:
    reads, writers = [], []
    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        reads.append(Read(layer.input_layernorm, tuple(linear.weight.data for linear in projections)))
        reads.append(Read(layer.post_attention_layernorm, (mlp.gate_proj.weight.data, mlp.up_proj.weight.data)))
        writers += [attention.o_proj.weight.data, mlp.down_proj.weight.data]
    reads.append(Read(model.model.norm, (model.lm_head.weight.data,)))
    return Stream(tuple(reads), tuple(writers), (), (model.model.embed_tokens.weight.data,), keeps_mean=False)


def _gpt2(model: Any) -> Stream:
    reads, writers, vectors = [], [], []
    for layer in model.transformer.h:
        reads.append(Read(layer.ln_1, (layer.attn.c_attn.weight.data.T,)))
        reads.append(Read(layer.ln_2, (layer.mlp.c_fc.weight.data.T,)))
        for module in (layer.attn.c_proj, layer.mlp.c_proj):
            writers.append(module.weight.data.T)
            vectors.append(module.bias.data)
    reads.append(Read(model.transformer.ln_f, (model.lm_head.weight.data,)))
    embeddings = (model.transformer.wte.weight.data, model.transformer.wpe.weight.data)
    return Stream(tuple(reads), tuple(writers), tuple(vectors), embeddings, keeps_mean=True)


def heads(model: Any) -> Iterator[Heads]:
    """Yield the attention of every layer."""
    for layer in layers(model):
        yield _gpt2_heads(layer.attn) if is_gpt2(model) else _llama_heads(layer.self_attn)


def _llama_heads(attention: Any) -> Heads:
    size, shared = attention.head_dim, attention.num_key_value_groups
    query, key, value = (
        getattr(attention, name).weight.data.unflatten(0, (-1, size)) for name in ("q_proj", "k_proj", "v_proj")
    )
    output = attention.o_proj.weight.data.T.unflatten(0, (-1, shared, size))
    return Heads(query.unflatten(0, (-1, shared)), key, value, output, (), rotary=True)


def _gpt2_heads(attention: Any) -> Heads:
    size = attention.head_dim
    joint, bias = attention.c_attn.weight.data.T, attention.c_attn.bias.data
    query, key, value = (part.unflatten(0, (-1, size)) for part in joint.chunk(3))
    biases = [part.unflatten(0, (-1, size)) for part in bias.chunk(3)]
    output = attention.c_proj.weight.data.unflatten(0, (-1, 1, size))
    return Heads(query[:, None], key, value, output, (biases[0][:, None], *biases[1:]), rotary=False)


def random_turn(width: int, keeps_mean: bool) -> Tensor:
    """Return an orthogonal matrix (d, d) in float64 from torch's generator; one that leaves the ones where they are."""
    turn: Tensor = torch.linalg.qr(torch.randn(width - keeps_mean, width - keeps_mean, dtype=torch.float64)).Q
    if not keeps_mean:
        return turn
    basis = torch.randn(width, width, dtype=torch.float64)
    basis[:, 0] = 1
    basis = torch.linalg.qr(basis).Q
    kept = torch.eye(width, dtype=torch.float64)
    kept[1:, 1:] = turn
    whole: Tensor = basis @ kept @ basis.T
    return whole
