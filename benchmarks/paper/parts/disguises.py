"""Disguises: edits that leave the function of a language model where it was and its weights somewhere else.

Most are those of the library's tests, taken where they are; two turn the residual stream, which no step of `robust`
undoes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.folders import rotate
from benchmarks.paper.parts.laundering import preserved
from tests import laundering

VERSION = 3
"""Raised when the code below or that of the tests' edits comes to mean something else."""
Change = Callable[[Any], None]
"""Edits a model of transformers in place; what it draws comes from torch's own generator."""


@dataclass(frozen=True)
class Edit:
    """What is done to a model so that its lineage does not show."""

    name: str
    changes: tuple[Change, ...]
    steps: tuple[str, ...] = ()
    """The steps that undo it."""


def permute_stream(model: Any) -> None:
    """Reorder the residual coordinates of a GPT-2, in everything that reads or writes them."""
    width = model.config.n_embd
    order = torch.randperm(width)
    for name, parameter in model.named_parameters():
        axis = 0 if name.endswith(("c_attn.weight", "c_fc.weight")) else -1
        if parameter.shape[axis] == width:
            parameter.data.copy_(parameter.data.index_select(axis, order))


HIDDEN = {
    "llama": Edit("hidden units reordered and rescaled", (laundering.permute_hidden, laundering.rescale)),
    "gpt2": Edit("hidden units reordered", (laundering.permute_hidden,)),
}
"""What the paper's own recipe does not see: GELU is not homogeneous, so a GPT-2 is not rescaled."""
GAINS = Edit("gains moved", (laundering.swap_gains,), ("gains",))
FURTHER = Edit("gains moved thrice", (laundering.swap_gains,) * 3, ("gains",))
MEANS = Edit("means shifted", (laundering.shift_means,), ("means",))
UNITS = Edit("dead units added", (laundering.add_dead_units,), ("cap",))
EDITS: Mapping[str, tuple[Edit, ...]] = {
    "llama": (
        HIDDEN["llama"],
        GAINS,
        FURTHER,
        UNITS,
        Edit("all of these", laundering.LLAMA_EDITS, ("gains", "cap")),
        Edit("stream rotated", (rotate,)),
    ),
    "gpt2": (
        HIDDEN["gpt2"],
        GAINS,
        FURTHER,
        MEANS,
        UNITS,
        Edit("all of these", laundering.GPT2_EDITS, ("gains", "means", "cap")),
        Edit("stream reordered", (permute_stream,)),
    ),
}
"""By family; the last of each is one that no step undoes. RMSNorm subtracts no mean."""


def digest(folder: Path) -> str:
    """Return the SHA-256 of a saved model's weights."""
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def disguised(cache: Cache, folder: Path, edit: Edit, tokens: Tensor) -> Path:
    """Return a saved model after an edit, in float32.

    Raise FunctionError where a logit on the tokens (b, t) moves by more than the paper's 1e-4. Edits are made and held
    against that in float64: shifts that cancel in a norm leave float32 fewer digits.
    """

    def make(into: Path) -> None:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype="float64", local_files_only=True).eval()
        with torch.no_grad():
            before = model(input_ids=tokens).logits
            torch.manual_seed(0)
            for change in edit.changes:
                change(model)
            preserved(before, model(input_ids=tokens).logits)
        model.float().save_pretrained(into)

    return cache.kept_folder("disguised", [VERSION, digest(folder), edit.name, list(tokens.shape)], make)
