"""Holding: parts of a model write the same for every token, and what the model says is held against before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hf_lineage.running.executed.loading import STACK, Loaded
from hf_lineage.running.executed.recording import At, is_stack

NATS, CHANGE = "nats", "change"
"""Units of a divergence: nats a token or, without a head that predicts tokens, a share of the last state."""


def held_inputs(loaded: Loaded, parts: Mapping[str, Sequence[int]]) -> dict[At, torch.Tensor]:
    """Return which inputs of which matrices hold their median, given parts by the key of their writer."""
    chosen: dict[At, list[int]] = {}
    for place in loaded.places:
        writer = place.writer
        per = writer.parts // writer.experts
        for number in parts.get(writer.key, ()):
            expert = (number // per if place.expert is None else place.expert) if is_stack(place) else None
            first = number % per * writer.part
            chosen.setdefault((place.owner, expert), []).extend(range(first, first + writer.part))
    return {at: torch.tensor(inputs) for at, inputs in chosen.items()}


def divergences(before: Any, after: Any, counted: int) -> tuple[str, torch.Tensor, float]:
    """Return what they are counted in, by sequence how far what a model says moved, and how much it says at all.

    The last is how far what it says to a token is, in the mean, from what it says to all of them together. So many
    tokens at the end of each sequence count.
    """
    if hasattr(before, "logits") and before.logits.ndim == STACK:
        return NATS, *_nats(before.logits[:, -counted:], after.logits[:, -counted:])
    old, new = (_rows(each[0], counted) for each in (before, after))
    sizes = old.norm(dim=-1).clamp(min=1e-30)
    says = ((old - old.mean(dim=(0, 1))).norm(dim=-1) / sizes).mean()
    return CHANGE, ((old - new).norm(dim=-1) / sizes).mean(dim=1), float(says)


def _rows(given: torch.Tensor, counted: int) -> torch.Tensor:
    """Return (sequences, tokens, width): what a model gives out for each token that counts, or for all together."""
    return (given[:, -counted:] if given.ndim == STACK else given[:, None]).cpu().double()


def _nats(before: torch.Tensor, after: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return the divergence a token by sequence, and the information in what is said, a sequence at a time."""
    moved, unsure, together = [], 0.0, torch.zeros(before.shape[-1], dtype=torch.float64)
    for first, second in zip(before, after, strict=True):
        old, new = (each.cpu().double().log_softmax(dim=-1) for each in (first, second))
        moved.append((old.exp() * (old - new)).sum() / len(old))
        unsure += float(torch.special.entr(old.exp()).sum())
        together += old.exp().sum(dim=0)
    count = before.shape[:2].numel()
    return torch.stack(moved), float(torch.special.entr(together / count).sum()) - unsure / count
