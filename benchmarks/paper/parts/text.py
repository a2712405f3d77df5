"""Text for language models: the documentation that ships with Python."""

from __future__ import annotations

from dataclasses import dataclass
from pydoc_data.topics import topics

import torch
from torch import Tensor

HELD_OUT = 10
"""One paragraph in so many is kept from training."""


@dataclass(frozen=True)
class Corpus:
    """Two texts that share no paragraph, as token numbers one after another."""

    name: str
    vocabulary: int
    training: Tensor
    held_out: Tensor

    def batches(self, count: int, size: int, context: int, seed: int) -> Tensor:
        """Return where in the training text the windows of so many batches start (count, size)."""
        random = torch.Generator().manual_seed(seed)
        return torch.randint(len(self.training) - context, (count, size), generator=random)

    def windows(self, count: int, context: int) -> Tensor:
        """Return the first windows of the held-out text (count, context), one behind the other."""
        return self.held_out[: count * context].view(count, context)


def documentation() -> Corpus:
    """Return Python's language reference, one token for each byte; topics quote one another, paragraphs stay once."""
    parts = (part.strip() for name in sorted(topics) for part in topics[name].split("\n\n"))
    paragraphs = [part for part in dict.fromkeys(parts) if part]
    held_out = paragraphs[::HELD_OUT]
    training = [part for number, part in enumerate(paragraphs) if number % HELD_OUT]
    return Corpus("Python's language reference, by bytes", 256, _bytes(training), _bytes(held_out))


def _bytes(paragraphs: list[str]) -> Tensor:
    return torch.tensor(list("\n\n".join(paragraphs).encode()))
