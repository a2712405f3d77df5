"""Blends of the example models in folders of their own, some of which keep numbers of the base bit for bit."""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from tests.models import EXAMPLES, WEIGHTS, Tensors, card

BASE, A, B = "acme/llama-base", "fern/llama-finetune-a", "fern/llama-finetune-b"
FAR, OTHER = "moss/llama-continued", "otter/llama-independent"


def weights(name: str) -> Tensors:
    return load_file(EXAMPLES / name / WEIGHTS)


def saved(folder: Path, tensors: Tensors, like: str = BASE) -> Path:
    folder.mkdir(parents=True)
    shutil.copy(EXAMPLES / like / "config.json", folder)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / WEIGHTS, {"format": "pt"})
    return card(folder, [like], "finetune")


def blended(
    folder: Path, shares: Mapping[str, float], dtype: torch.dtype = torch.bfloat16, bits: int = 0, part: str = ""
) -> Path:
    """The sum of example models times these shares, rounded to so many bits if any.

    Where the name of a tensor does not match `part` it is that of the first model.
    """
    parents = {name: weights(name) for name in shares}
    first, *_ = parents
    tensors = {}
    for name, own in parents[first].items():
        mixed = torch.stack([share * parents[parent][name].double() for parent, share in shares.items()]).sum(dim=0)
        numbers = mixed if re.search(part, name) else own.double()
        tensors[name] = (_rounded(numbers, bits) if bits and own.ndim > 1 and "layers" in name else numbers).to(dtype)
    return saved(folder, tensors, first)


def _rounded(numbers: torch.Tensor, bits: int) -> torch.Tensor:
    """Numbers in blocks of 32 that share a scale, as 4-bit formats hold them."""
    blocks, most = numbers.reshape(-1, 32), 2 ** (bits - 1) - 1
    step = blocks.abs().amax(dim=1, keepdim=True) / most
    return ((blocks / step).round() * step).reshape(numbers.shape)


def other_mlps(folder: Path) -> Path:
    return blended(folder, {BASE: 0.0, OTHER: 1.0}, part=r"\.mlp\.")


def half_foreign(folder: Path) -> Path:
    return blended(folder, {BASE: 0.0, OTHER: 1.0}, part=r"layers\.[135]\.")


def dare(folder: Path, density: float, name: str = FAR) -> Path:
    """Each number of a descendant with this probability, its change rescaled; the base's in all other places."""
    random, other, mixed = torch.Generator().manual_seed(0), weights(name), weights(BASE)
    for key, base in mixed.items():
        kept = torch.rand(base.shape, generator=random) < density
        mixed[key] = torch.where(kept, (base + (other[key].float() - base) / density).to(base.dtype), base)
    return saved(folder, mixed)


def dare_ties(folder: Path, names: Sequence[str] = (A, OTHER), density: float = 0.5) -> Path:
    """The changes of several models that remain after DARE, where most of them have one sign."""
    random, others, mixed = torch.Generator().manual_seed(0), [weights(name) for name in names], weights(BASE)
    for key, base in mixed.items():
        kept = [torch.rand(base.shape, generator=random) < density for _ in others]
        changes = [(one[key].float() - base) * some / density for one, some in zip(others, kept, strict=True)]
        sign = torch.stack(changes).sum(dim=0).sign()
        agreeing = torch.stack([torch.where(one.sign() == sign, one, 0) for one in changes])
        mixed[key] = (base + agreeing.sum(dim=0) / (agreeing != 0).sum(dim=0).clamp(min=1)).to(base.dtype)
    return saved(folder, mixed)


def few_loud(folder: Path) -> Path:
    """An independent model with its MLPs enlarged, and the base's numbers in a tenth of their places."""
    random, base, mixed = torch.Generator().manual_seed(0), weights(BASE), weights(OTHER)
    for key, own in mixed.items():
        if own.ndim > 1 and "layers" in key:
            mixed[key] = torch.where(torch.rand(own.shape, generator=random) < 0.1, base[key], own * 256)
    return saved(folder, mixed)
