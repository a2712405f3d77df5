"""The paper's pairing experiment: do a block's two matrices find each other by their trace alone?"""

from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from transformers import PreTrainedModel

Factors = dict[str, tuple[Tensor, Tensor]]  # path -> the matrix that writes the residual stream, the one that reads it


@torch.no_grad()
def pairing_accuracy(model: PreTrainedModel) -> dict[str, float]:
    """For each path, the share of blocks whose two matrices are matched to each other."""
    blocks = _blocks(model)
    return {path: _matched([block[path] for block in blocks]) for path in blocks[0]}


def _matched(pairs: list[tuple[Tensor, Tensor]]) -> float:
    scores = np.array([[_trace_concentration(out @ into) for _, into in pairs] for out, _ in pairs])
    rows, columns = linear_sum_assignment(scores, maximize=True)
    return float((rows == columns).mean())


def _trace_concentration(product: Tensor) -> float:
    return float(product.trace().abs() / product.norm())


def _blocks(model: PreTrainedModel) -> list[Factors]:
    if model.config.model_type == "gpt2":
        return [_gpt2_factors(block) for block in model.transformer.h]
    repeats = model.config.num_attention_heads // model.config.num_key_value_heads
    return [_llama_factors(layer, repeats) for layer in model.model.layers]


def _llama_factors(layer: Any, repeats: int) -> Factors:
    attention, mlp = layer.self_attn, layer.mlp

    def per_query_head(weight: Tensor) -> Tensor:
        heads = weight.view(-1, attention.head_dim, weight.shape[1])
        return heads.repeat_interleave(repeats, dim=0).flatten(0, 1)

    return {
        "mlp": (mlp.down_proj.weight, mlp.up_proj.weight),
        "mlp_gate": (mlp.down_proj.weight, mlp.gate_proj.weight),
        "value_output": (attention.o_proj.weight, per_query_head(attention.v_proj.weight)),
        "query_key": (attention.q_proj.weight.T, per_query_head(attention.k_proj.weight)),
    }


def _gpt2_factors(block: Any) -> Factors:
    """GPT-2 stores its matrices the other way round."""
    query, key, value = block.attn.c_attn.weight.T.chunk(3)
    return {
        "mlp": (block.mlp.c_proj.weight.T, block.mlp.c_fc.weight.T),
        "value_output": (block.attn.c_proj.weight.T, value),
        "query_key": (query.T, key),
    }
