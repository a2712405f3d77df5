"""Models that keep numbers of the example base, bit for bit, and others that keep none."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from tests.models import EXAMPLES, WEIGHTS

BASE, FAR, NEAR = "acme/llama-base", "moss/llama-continued", "fern/llama-finetune-a"
OTHER = "otter/llama-independent"
Tensors = dict[str, torch.Tensor]


def weights(name: str) -> Tensors:
    return load_file(EXAMPLES / name / WEIGHTS)


def saved(folder: Path, tensors: Tensors) -> Path:
    folder.mkdir(parents=True)
    shutil.copy(EXAMPLES / BASE / "config.json", folder)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / WEIGHTS, {"format": "pt"})
    return folder


def dare(folder: Path, density: float, name: str = FAR) -> Path:
    """Each number of a descendant with this probability, its change rescaled; the base's in all other places."""
    random, other = torch.Generator().manual_seed(0), weights(name)

    def mixed(key: str, base: torch.Tensor) -> torch.Tensor:
        kept = torch.rand(base.shape, generator=random) < density
        return torch.where(kept, (base + (other[key].float() - base) / density).to(base.dtype), base)

    return saved(folder, {key: mixed(key, base) for key, base in weights(BASE).items()})


def dare_ties(folder: Path, names: Sequence[str] = (NEAR, OTHER), density: float = 0.5) -> Path:
    """The changes of several models that remain after DARE, where most of them have one sign."""
    random, others = torch.Generator().manual_seed(0), [weights(name) for name in names]

    def mixed(key: str, base: torch.Tensor) -> torch.Tensor:
        kept = [torch.rand(base.shape, generator=random) < density for _ in others]
        changes = [(one[key].float() - base) * some / density for one, some in zip(others, kept, strict=True)]
        sign = torch.stack(changes).sum(dim=0).sign()
        agreeing = torch.stack([torch.where(one.sign() == sign, one, 0) for one in changes])
        return (base + agreeing.sum(dim=0) / (agreeing != 0).sum(dim=0).clamp(min=1)).to(base.dtype)

    return saved(folder, {key: mixed(key, base) for key, base in weights(BASE).items()})


def other_mlps(folder: Path) -> Path:
    """Everything of the base but its MLPs, which are those of an independent model."""
    other = weights(OTHER)
    return saved(folder, {key: other[key] if ".mlp." in key else base for key, base in weights(BASE).items()})


def half_foreign(folder: Path) -> Path:
    """Everything of the base but three of its six layers, which are those of an independent model."""
    other, foreign = weights(OTHER), tuple(f"model.layers.{number}." for number in (1, 3, 5))
    return saved(folder, {key: other[key] if key.startswith(foreign) else base for key, base in weights(BASE).items()})


def few_loud(folder: Path) -> Path:
    """An independent model with its MLPs enlarged, and the base's numbers in a tenth of their places."""
    random, base = torch.Generator().manual_seed(0), weights(BASE)

    def mixed(key: str, own: torch.Tensor) -> torch.Tensor:
        if own.ndim < 2 or "layers" not in key:
            return own
        return torch.where(torch.rand(own.shape, generator=random) < 0.1, base[key], own * 256)

    return saved(folder, {key: mixed(key, own) for key, own in weights(OTHER).items()})
