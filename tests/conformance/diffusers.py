"""Tiny models of diffusers, each with what it is built from and what it takes."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tests.conformance.forms import HEADS, PICTURE, WIDTH
from tests.conformance.tiny import TinyModel, read_back

CHANNELS, TEXT, TEXT_WIDTH = 4, 3, 24
SIZES = {"num_attention_heads": HEADS, "attention_head_dim": WIDTH // HEADS, "num_layers": 2}
PATCHES = SIZES | {"in_channels": CHANNELS, "sample_size": PICTURE, "patch_size": 2}
NORMED = PATCHES | {"num_embeds_ada_norm": 10}
STAGES = {
    "sample_size": PICTURE,
    "block_out_channels": (WIDTH,) * 3,
    "norm_num_groups": 4,
    "cross_attention_dim": TEXT_WIDTH,
    "layers_per_block": 2,
    "attention_head_dim": HEADS,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
}


def conditioned(model: Any, batch: int, length: int) -> dict[str, Any]:
    torch.manual_seed(1)
    return {
        "sample": torch.randn(1, CHANNELS, PICTURE, PICTURE).expand(batch, -1, -1, -1),
        "timestep": torch.full((batch,), 5),
        "encoder_hidden_states": torch.randn(1, TEXT, TEXT_WIDTH).expand(batch, -1, -1),
    }


def of_a_class(model: Any, batch: int, length: int) -> dict[str, Any]:
    noisy = conditioned(model, batch, length)
    return {"hidden_states": noisy["sample"], "timestep": noisy["timestep"], "class_labels": torch.ones(batch).long()}


def described(model: Any, batch: int, length: int) -> dict[str, Any]:
    noisy, sizes = conditioned(model, batch, length), dict.fromkeys(("resolution", "aspect_ratio"))
    return {"hidden_states": noisy.pop("sample"), **noisy, "added_cond_kwargs": sizes}


def pooled(model: Any, batch: int, length: int) -> dict[str, Any]:
    noisy = conditioned(model, batch, length)
    text = torch.randn(1, TEXT_WIDTH).expand(batch, -1)
    return {"hidden_states": noisy.pop("sample"), **noisy, "pooled_projections": text}


def flattened(model: Any, batch: int, length: int) -> dict[str, Any]:
    """The picture as a sequence of patches, with the place of every patch and of every token of the text."""
    noisy = pooled(model, batch, length)
    patches = noisy.pop("hidden_states").reshape(batch, -1, CHANNELS)
    return {
        **noisy,
        "hidden_states": patches,
        "timestep": noisy["timestep"] / 10,
        "img_ids": torch.zeros(patches.shape[1], 3),
        "txt_ids": torch.zeros(TEXT, 3),
    }


class Code(NamedTuple):
    settings: dict[str, Any]
    inputs: Any


# Of three layers, because the last one gives out no text.
DEEP = {
    "num_layers": 3,
    "in_channels": CHANNELS,
    "joint_attention_dim": TEXT_WIDTH,
    "pooled_projection_dim": TEXT_WIDTH,
}
JOINT = PATCHES | DEEP | {"pos_embed_max_size": PICTURE, "out_channels": CHANNELS, "caption_projection_dim": WIDTH}
FLATTENED = SIZES | DEEP | {"patch_size": 1, "num_single_layers": 2, "axes_dims_rope": [2, 2, 4]}
KINDS: dict[str, list[Code]] = {
    "UNet2DConditionModel": [
        Code(STAGES, conditioned),
        Code(STAGES | {"attention_head_dim": [2, 4, 8], "use_linear_projection": True}, conditioned),
        Code(STAGES | {"transformer_layers_per_block": [1, 2, 3]}, conditioned),
    ],
    "DiTTransformer2DModel": [Code(NORMED, of_a_class)],
    "PixArtTransformer2DModel": [
        Code(NORMED | {"caption_channels": TEXT_WIDTH, "cross_attention_dim": WIDTH}, described)
    ],
    "SD3Transformer2DModel": [Code(JOINT, pooled), Code(JOINT | {"dual_attention_layers": (0, 1)}, pooled)],
    "FluxTransformer2DModel": [Code(FLATTENED, flattened)],
}  # class of diffusers -> the forms in which it is proved


def build_diffuser(name: str, kind: Code, folder: Path) -> TinyModel:
    """A tiny model, every parameter random, whose attention says what it scores, beside what is read back."""
    import diffusers
    from diffusers.models import attention_processor

    torch.manual_seed(0)
    model = getattr(diffusers, name)(**kind.settings).eval()
    for parameter in model.parameters():
        parameter.data.normal_(std=0.3)
    for module in model.modules():
        if isinstance(getattr(module, "processor", None), attention_processor.AttnProcessor2_0):
            module.set_processor(attention_processor.AttnProcessor())
    model.save_pretrained(folder)
    return replace(read_back(model, folder), inputs=kind.inputs)
