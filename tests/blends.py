"""Blends of the example models in folders of their own, with a card that names the base alone."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from tests.models import EXAMPLES, WEIGHTS, card

BASE, A, B = "acme/llama-base", "fern/llama-finetune-a", "fern/llama-finetune-b"


def blended(
    folder: Path, weights: Mapping[str, float], dtype: torch.dtype = torch.bfloat16, bits: int = 0, part: str = ""
) -> Path:
    """The sum of example models times these weights, rounded to so many bits if any.

    Where the name of a tensor does not match `part` it is that of the first model.
    """
    parents = {name: load_file(EXAMPLES / name / WEIGHTS) for name in weights}
    first, *_ = parents
    tensors = {}
    for name, own in parents[first].items():
        mixed = torch.stack([weight * parents[parent][name].double() for parent, weight in weights.items()]).sum(dim=0)
        numbers = mixed if re.search(part, name) else own.double()
        tensors[name] = (_rounded(numbers, bits) if bits and own.ndim > 1 and "layers" in name else numbers).to(dtype)
    folder.mkdir(parents=True)
    shutil.copy(EXAMPLES / first / "config.json", folder)
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})
    card(folder, [first], "finetune")
    return folder


def half_and_half(folder: Path, weights: Mapping[str, float], part: str) -> Path:
    """A blend in some tensors, and the first of its parents in all others."""
    return blended(folder, weights, part=part)


def _rounded(numbers: torch.Tensor, bits: int) -> torch.Tensor:
    """Numbers in blocks of 32 that share a scale, as 4-bit formats hold them."""
    blocks, most = numbers.reshape(-1, 32), 2 ** (bits - 1) - 1
    step = blocks.abs().amax(dim=1, keepdim=True) / most
    return ((blocks / step).round() * step).reshape(numbers.shape)
