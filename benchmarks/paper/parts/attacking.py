"""Attacking: what somebody who knows the method does to a Llama so that its base does not show, whatever it costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.paper.parts.language import next_token
from benchmarks.paper.parts.text import Corpus

Likeness = Callable[[Any], list[Tensor]]
"""Of a model what is not to be like the base's: matrices or vectors, each compared with its own."""
TOKENIZER = "tokenizer.json"


def folded(norm: Any, matrix: Tensor) -> Tensor:
    """Return a matrix (out, d) with the gain of the norm in front of it."""
    scaled: Tensor = matrix * norm.weight
    return scaled


def of_mlp(model: Any) -> list[Tensor]:
    """Return the product of the path that decides by default, (d, d) by layer."""
    return [
        layer.mlp.down_proj.weight @ folded(layer.post_attention_layernorm, layer.mlp.up_proj.weight)
        for layer in model.model.layers
    ]


def of_all_paths(model: Any) -> list[Tensor]:
    """Return the products of all paths."""
    found = of_mlp(model)
    for layer in model.model.layers:
        attention, mlp, norm = layer.self_attn, layer.mlp, layer.input_layernorm
        found.append(mlp.down_proj.weight @ folded(layer.post_attention_layernorm, mlp.gate_proj.weight))
        size, shared = attention.head_dim, attention.num_key_value_groups
        query, key, value = (
            folded(norm, linear.weight).view(-1, size, linear.weight.shape[1])
            for linear in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        keys, values = (part.repeat_interleave(shared, dim=0).flatten(0, 1) for part in (key, value))
        found += [query.flatten(0, 1).T @ keys, attention.o_proj.weight @ values]
    return found


def of_units(model: Any) -> list[Tensor]:
    """Return what every hidden unit reads and writes, one product of two directions for each: (h, d d) is not made."""
    found = []
    for layer in model.model.layers:
        mlp, norm = layer.mlp, layer.post_attention_layernorm
        for reader in (mlp.up_proj.weight, mlp.gate_proj.weight):
            found.append(torch.stack([folded(norm, reader), mlp.down_proj.weight.T]))
    return found


def alike(ours: Tensor, theirs: Tensor) -> Tensor:
    """Return the mean likeness: of centred products their cosine, of units the product of their two cosines."""
    if ours.ndim == 3:
        return functional.cosine_similarity(ours, theirs, dim=-1).prod(dim=0).clamp(min=0).mean()
    eye = torch.eye(len(ours))
    mine, others = ((matrix - eye * matrix.diagonal().mean()).flatten() for matrix in (ours, theirs))
    return functional.cosine_similarity(mine, others, dim=0).abs()


def suppressed(model: Any, corpus: Corpus, seen: Likeness, steps: int, price: float = 3.0) -> Any:
    """Train a model on its text and against its likeness to what it was."""
    before = [tensor.detach().clone() for tensor in seen(model)]
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for batch in _batches(model, corpus, steps):
        likeness = torch.stack([alike(*both) for both in zip(seen(model), before, strict=True)]).mean()
        optimizer.zero_grad()
        torch.autograd.backward(next_token(model, batch) + price * likeness)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def _batches(model: Any, corpus: Corpus, steps: int) -> Iterator[Tensor]:
    windows = corpus.training.unfold(0, model.config.max_position_embeddings, 1)
    for starts in corpus.batches(steps, 8, windows.shape[1], seed=9):
        yield windows[starts]


def embedded_anew(model: Any, corpus: Corpus, steps: int) -> Any:
    """Replace the embedding and the unembedding by fresh ones and train these two alone."""
    model.requires_grad_(False)
    trained = [model.model.embed_tokens.weight, model.lm_head.weight]
    for matrix in trained:
        matrix.data.copy_(matrix.std() * torch.randn_like(matrix))
        matrix.requires_grad_()
    optimizer = torch.optim.Adam(trained, lr=1e-2)
    for batch in _batches(model, corpus, steps):
        optimizer.zero_grad()
        torch.autograd.backward(next_token(model, batch))
        optimizer.step()
    return model.eval()


def renumbered(model: Any, order: Tensor) -> Any:
    """Give the tokens other numbers: row i becomes what was row order[i]."""
    for matrix in (model.model.embed_tokens.weight, model.lm_head.weight):
        matrix.data.copy_(matrix.data[order].clone())
    return model


def renumber_tokenizer(folder: Path, order: Tensor) -> None:
    """Write into the tokenizer beside a model what its tokens are called now."""
    file = folder / TOKENIZER
    content = json.loads(file.read_text(encoding="utf-8"))
    now = {old: new for new, old in enumerate(order.tolist())}
    content["model"]["vocab"] = {word: now[number] for word, number in content["model"]["vocab"].items()}
    file.write_text(json.dumps(content), encoding="utf-8")


def noisy(model: Any, relative: float) -> Any:
    """Add noise to every matrix, relative to the standard deviation of its numbers."""
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data.add_(relative * parameter.std() * torch.randn_like(parameter))
    return model
