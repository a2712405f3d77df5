"""Cases: models after an edit as a folder each, and by how much the edit moved their logits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from benchmarks.paper.parts.cache import Cache, digest
from benchmarks.paper.parts.laundering import FunctionError

Change = Callable[[Any], None]
"""Edits a model of transformers in place; what it draws comes from torch's own generator."""
VERSION = 2
"""Raised when an edit of `hiding` comes to mean something else."""
ROUNDING = 3e-5
"""By how much logits of about ten may move: a norm of transformers and a softmax round to float32 whatever the model
is in, and a turned stream is rounded elsewhere."""
NOTED = "edit.json"


@dataclass(frozen=True)
class Case:
    """A model after an edit."""

    folder: Path
    moved: float
    """The largest difference of a logit of the module of transformers before and after."""


@contextmanager
def doubles() -> Iterator[None]:
    """Draw what an edit draws in float64: a shift that cancels in a norm leaves float32 fewer digits."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def loaded(folder: Path) -> Any:
    """Return a saved model in float64."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype="float64", local_files_only=True).eval()


@torch.no_grad()
def moved(model: Any, change: Change, tokens: Tensor, seed: int = 0) -> float:
    """Edit a model in place and return the largest difference of a logit on the tokens (b, t).

    Raise FunctionError where that is more than rounding.
    """
    before = model(input_ids=tokens).logits
    with doubles():
        torch.manual_seed(seed)
        change(model)
    difference = float((model(input_ids=tokens).logits - before).abs().max())
    if not difference <= ROUNDING:
        raise FunctionError(f"the logits moved by {difference:.2g}, more than {ROUNDING:g}")
    return difference


def hidden(cache: Cache, folder: Path, name: str, change: Change, tokens: Tensor) -> Case:
    """Return a saved model after an edit that leaves its function where it was, in float32."""

    def make(into: Path) -> None:
        model = loaded(folder)
        difference = moved(model, change, tokens)
        model.float().save_pretrained(into)
        (into / NOTED).write_text(json.dumps(difference), encoding="utf-8")

    made = cache.kept_folder("hidden", [VERSION, digest(folder), name, list(tokens.shape)], make)
    return Case(made, float(json.loads((made / NOTED).read_text(encoding="utf-8"))))
