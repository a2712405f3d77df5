"""Holding: parts of a model write the same for every token, and what the model says is held against before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hf_lineage.running.executed.loading import STACK, Loaded
from hf_lineage.running.executed.recording import At, Held, is_stack

NATS, CHANGE = "nats", "change"
"""Units of a divergence: nats a token or, without a head that predicts tokens, a share of the last hidden state."""


def held_inputs(
    loaded: Loaded, medians: Mapping[At, torch.Tensor], parts: Mapping[str, Sequence[int]]
) -> dict[At, Held]:
    """Return the inputs of each matrix that are held at their median, given the parts by the key of their writer."""
    chosen: dict[At, list[int]] = {}
    for place in loaded.places:
        writer = place.writer
        per = writer.parts // writer.experts
        for number in parts.get(writer.key, ()):
            expert = (number // per if place.expert is None else place.expert) if is_stack(place) else None
            first = number % per * writer.part
            chosen.setdefault((place.owner, expert), []).extend(range(first, first + writer.part))
    known = {at: inputs for at, inputs in chosen.items() if at in medians and inputs}
    return {at: Held(torch.tensor(inputs), medians[at][inputs]) for at, inputs in known.items()}


def divergences(before: Any, after: Any, counted: int) -> tuple[str, torch.Tensor, float]:
    """Return the unit, the divergence of the output for each sequence, and the mean information in the output.

    The mean information is the mean divergence of the output for one token from the mean output for all tokens. Only
    the last `counted` tokens of each sequence count.
    """
    if hasattr(before, "logits") and before.logits.ndim == STACK:
        return NATS, *_nats(before.logits[:, -counted:], after.logits[:, -counted:])
    old, new = (_rows(each[0], counted) for each in (before, after))
    sizes = old.norm(dim=-1).clamp(min=1e-30)
    says = ((old - old.mean(dim=(0, 1))).norm(dim=-1) / sizes).mean()
    return CHANGE, ((old - new).norm(dim=-1) / sizes).mean(dim=1), float(says)


def _rows(given: torch.Tensor, counted: int) -> torch.Tensor:
    """Return the output for each token that counts, or a pooled output as one row: (sequences, tokens, width)."""
    return (given[:, -counted:] if given.ndim == STACK else given[:, None]).cpu().double()


def _nats(before: torch.Tensor, after: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return the divergence per token of each sequence, and the mean information in the output."""
    moved, unsure, together = [], 0.0, torch.zeros(before.shape[-1], dtype=torch.float64)
    for first, second in zip(before, after, strict=True):
        old, new = (each.cpu().double().log_softmax(dim=-1) for each in (first, second))
        moved.append((old.exp() * (old - new)).sum() / len(old))
        unsure += float(torch.special.entr(old.exp()).sum())
        together += old.exp().sum(dim=0)
    count = before.shape[:2].numel()
    return torch.stack(moved), float(torch.special.entr(together / count).sum()) - unsure / count
