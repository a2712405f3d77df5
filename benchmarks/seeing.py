"""Models that see, in miniature: an example model behind a small tower that was trained to tell drawn gratings apart.

The whole is a LLaVA, with the class, the names and the settings of transformers.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import CLIPVisionModel

    Tensors = dict[str, torch.Tensor]

SIDE, PATCH, HEADS = 16, 4, 4
DIRECTIONS, WAVES = 6, (1.0, 2.0, 3.0)
"""Of the gratings; each pair is a class that the tower learns to tell."""
STEPS, FURTHER, BATCH = 200, 60, 64
WEIGHTS = "model.safetensors"
OTHER_NAMES = {
    "language_model.model.": "model.language_model.",
    "language_model.lm_head.": "lm_head.",
    "vision_tower.": "model.vision_tower.",
    "multi_modal_projector.": "model.multi_modal_projector.",
}
"""The names that transformers wrote before its version 5, each with the one that it has now."""


@dataclass(frozen=True)
class Size:
    """How wide and how deep a tower is."""

    width: int
    layers: int


def write_seeing(folder: Path, language: Path, tower: Tensors, size: Size, seed: int, as_renamed: bool = False) -> None:
    """Write a LLaVA: the language model of a folder, a tower, and a projector drawn by a seed."""
    from safetensors.torch import load_file, save_file

    words = load_file(language / WEIGHTS)
    settings = json.loads((language / "config.json").read_text(encoding="utf-8"))
    tensors = {f"language_model.{name}": one for name, one in words.items()}
    tensors |= {f"vision_tower.vision_model.{name}": one for name, one in tower.items()}
    tensors |= _projector(size.width, settings["hidden_size"], seed)
    if as_renamed:
        tensors = {_renamed(name): one for name, one in tensors.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_config(settings, size), indent=1), encoding="utf-8")
    save_file({name: one.contiguous() for name, one in tensors.items()}, folder / WEIGHTS, {"format": "pt"})


def _renamed(name: str) -> str:
    old = next(old for old in OTHER_NAMES if name.startswith(old))
    return OTHER_NAMES[old] + name.removeprefix(old)


def _projector(width: int, wanted: int, seed: int) -> Tensors:
    import torch

    generator = torch.Generator().manual_seed(seed)
    shapes = {"linear_1": (wanted, width), "linear_2": (wanted, wanted)}
    drawn = {name: torch.randn(shape, generator=generator) / shape[1] ** 0.5 for name, shape in shapes.items()}
    return {f"multi_modal_projector.{name}.weight": one for name, one in drawn.items()} | {
        f"multi_modal_projector.{name}.bias": torch.zeros(wanted) for name in shapes
    }


def _config(words: Mapping[str, Any], size: Size) -> dict[str, Any]:
    return {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "image_token_index": words["vocab_size"] - 1,
        "projector_hidden_act": "gelu",
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full",
        "text_config": dict(words),
        "vision_config": {"model_type": "clip_vision_model", **_tower_settings(size)},
    }


def _tower_settings(size: Size) -> dict[str, Any]:
    return {
        "hidden_size": size.width,
        "intermediate_size": 2 * size.width,
        "num_hidden_layers": size.layers,
        "num_attention_heads": HEADS,
        "image_size": SIDE,
        "patch_size": PATCH,
        "projection_dim": size.width,
        "hidden_act": "quick_gelu",
    }


@functools.cache
def trained_tower(size: Size, seed: int) -> Tensors:
    """Return a tower trained from weights that a seed draws."""
    import torch
    from transformers import CLIPVisionConfig, CLIPVisionModel

    torch.manual_seed(seed)
    model = CLIPVisionModel(CLIPVisionConfig(**_tower_settings(size)))
    _train(model, STEPS, 2e-3, seed)
    return _stored(model)


def further_trained(tower: Tensors, size: Size, seed: int) -> Tensors:
    """Return a tower after some more steps, on gratings in other colours and with more noise."""
    from transformers import CLIPVisionConfig, CLIPVisionModel

    model = CLIPVisionModel(CLIPVisionConfig(**_tower_settings(size)))
    model.load_state_dict({f"{_before(model)}{name}": one for name, one in tower.items()}, strict=False)
    _train(model, FURTHER, 5e-4, seed + 1000, noise=1.0)
    return _stored(model)


def _before(model: CLIPVisionModel) -> str:
    """What stands before the names of a tower's tensors in this version of transformers."""
    name = next(name for name in model.state_dict() if name.endswith("pre_layrnorm.weight"))
    return str(name).removesuffix("pre_layrnorm.weight")


def _stored(model: CLIPVisionModel) -> Tensors:
    before = _before(model)
    tensors = {name.removeprefix(before): one.detach().clone() for name, one in model.state_dict().items()}
    return {name: one for name, one in tensors.items() if not name.endswith("position_ids")}


def _train(model: CLIPVisionModel, steps: int, rate: float, seed: int, noise: float = 0.5) -> None:
    """Train a tower in place to tell which grating a picture shows, with a head that is thrown away."""
    import torch

    torch.manual_seed(seed)
    head = torch.nn.Linear(model.config.hidden_size, DIRECTIONS * len(WAVES))
    learning = [*model.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(learning, lr=rate)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        pictures, kinds = _gratings(generator, noise)
        said = head(model(pixel_values=pictures).last_hidden_state.mean(dim=1))
        optimizer.zero_grad()
        torch.autograd.backward(torch.nn.functional.cross_entropy(said, kinds))
        torch.nn.utils.clip_grad_norm_(learning, 1.0)
        optimizer.step()


def _gratings(generator: torch.Generator, noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of pictures of waves in a direction and of a length, in a random colour and phase, and their kinds."""
    import torch

    kinds = torch.randint(DIRECTIONS * len(WAVES), (BATCH,), generator=generator)
    angles, waves = (kinds % DIRECTIONS) * torch.pi / DIRECTIONS, torch.tensor(WAVES)[kinds // DIRECTIONS]
    across = torch.linspace(0, 2 * torch.pi, SIDE)
    along = torch.cos(angles)[:, None, None] * across[:, None] + torch.sin(angles)[:, None, None] * across
    phases = 2 * torch.pi * torch.rand(BATCH, 1, 1, generator=generator)
    colours = torch.rand(BATCH, 3, 1, 1, generator=generator)
    plain = colours * torch.sin(waves[:, None, None] * along + phases)[:, None]
    return plain + noise * torch.randn(plain.shape, generator=generator), kinds
