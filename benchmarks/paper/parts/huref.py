"""HuRef's invariant (Zeng et al. 2023) of a Llama or a GPT-2: products of its matrices seen through its embedding.

X W_q W_k X, X W_v W_o X and X W_up W_down X of the last two layers, X the rows of the tokens that both models have; the
score is the mean cosine of the six. Turning the stream and every map inside a head cancel; moved gains do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.paper.parts.cases import loaded
from benchmarks.paper.parts.streams import heads, stream
from tests.laundering import blocks

LAYERS = 2
MOST = 4096
"""Tokens that are looked at, the last ones: the paper takes as many rare ones."""


@torch.no_grad()
def invariants(folder: Path) -> list[Tensor]:
    """Return the terms (K, K) of a saved model."""
    return list(_terms(loaded(folder)))


def _terms(model: Any) -> Iterator[Tensor]:
    rows = stream(model).embeddings[0][-MOST:]
    for each in list(heads(model))[-LAYERS:]:
        keys, values = (part[:, None].expand_as(each.query).flatten(0, 2) for part in (each.key, each.value))
        query, output = each.query.flatten(0, 2), each.output.flatten(0, 2)
        yield (rows @ query.T) @ (keys @ rows.T)
        yield (rows @ values.T) @ (output @ rows.T)
    for block in list(blocks(model))[-LAYERS:]:
        yield (rows @ block.up.T) @ (block.down.T @ rows.T)


def similarity(one: Path, other: Path) -> float:
    """Return the mean cosine of the invariants of two saved models."""
    pairs = zip(invariants(one), invariants(other), strict=True)
    return float(torch.stack([torch.cosine_similarity(a.flatten(), b.flatten(), dim=0) for a, b in pairs]).mean())
