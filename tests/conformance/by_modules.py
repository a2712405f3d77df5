"""Modules whose matrices one function of torch is given: the same by calls of the modules, which hooks can see."""

from __future__ import annotations

import functools
from typing import Any

import torch

FUNCTION = "torch_multi_head_self_attention"


def attend(
    module: Any, states: torch.Tensor, mask: torch.Tensor | None, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What WavLM makes of a stream (batch, tokens, width)."""
    query, key, value = (
        linear(states).unflatten(-1, (module.num_heads, -1)).transpose(1, 2)
        for linear in (module.q_proj, module.k_proj, module.v_proj)
    )
    scores = module.scaling * query @ key.mT + bias.unflatten(0, (-1, module.num_heads))
    if mask is not None:
        scores = scores.masked_fill(mask.ne(1)[:, None, None], -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    return module.out_proj((weights @ value).transpose(1, 2).flatten(2)), weights


def by_modules(model: torch.nn.Module) -> None:
    """Let attention call its own modules wherever one function does their work."""
    for module in model.modules():
        if hasattr(module, FUNCTION):
            setattr(module, FUNCTION, functools.partial(attend, module))
