"""Inputs: the part of a model to run, and what it is given to read, see or hear."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from hf_lineage.running.model.models import PICTURE, SOUND, WIDTH

Parameters = Mapping[str, inspect.Parameter]
PATCH = 16
"""How many pixels wide the patches are that a model of flattened ones is given."""


def runner(model: Any) -> Any:
    """The part of a model to run: its base, unless that asks for more than what a file's owner would put in."""
    base = getattr(model, "base_model", model)
    accepted = inspect.signature(base.forward).parameters
    known = accepted.keys() & {"input_ids", "pixel_values", "input_values", "input_features"}
    return base if known and "decoder_input_values" not in accepted else model


def sample(model: Any, batch: int, length: int = 1) -> dict[str, torch.Tensor]:
    """What a model takes: so many tokens or, of pictures and sounds, what makes enough of them, or both.

    A decoder beside the encoder takes as many tokens, or as many frames of sound.
    """
    torch.default_generator.manual_seed(1)  # `torch.manual_seed` takes milliseconds, to tell devices that are not there
    accepted = inspect.signature(model.forward).parameters
    tokens = (3 + torch.arange(length).fmod(57)).expand(batch, length)
    config = getattr(model.config, "vision_config", model.config)
    taken = {} if "input_ids" in accepted and not _takes_both(model, accepted) else _perceived(config, accepted, batch)
    if "input_ids" in accepted:
        taken |= {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if "cross_attention_states" in accepted:
        taken["cross_attention_states"] = torch.randn(batch, 2, WIDTH)
    if "decoder_input_ids" in accepted:
        taken["decoder_input_ids"] = tokens
    if "decoder_input_values" in accepted:
        taken["decoder_input_values"] = torch.randn(1, length, config.num_mel_bins).expand(batch, -1, -1)
    return taken


def _takes_both(model: Any, accepted: Parameters) -> bool:
    """Whether a model that reads has to see too: one of two towers, or one stack that is given both."""
    required = "pixel_values" in accepted and accepted["pixel_values"].default is inspect.Parameter.empty
    one_stack = "pixel_mask" in accepted and not hasattr(model.config, "text_config")
    return required or one_stack or hasattr(runner(model), "get_text_features")


def _perceived(config: Any, accepted: Parameters, batch: int) -> dict[str, torch.Tensor]:
    """A picture, a film or a sound, the same for the whole batch."""
    if "spatial_shapes" in accepted:
        return _cut(config, batch)
    frames = [config.num_frames] if hasattr(config, "num_frames") else []
    channels = getattr(config, "num_channels", 3)
    pixels = 2 * PICTURE if hasattr(config, "depths") else PICTURE  # every stage halves them
    shapes = {
        "pixel_values": (*frames, channels, pixels, pixels),
        "input_values": _waves(config),
        "input_features": _features(config),
        "flattened_patches": (SOUND, 2 + channels * PATCH**2),
    }
    name = next(name for name in shapes if name in accepted)
    return {name: torch.rand(1, *shapes[name]).expand(batch, *shapes[name])}


def _cut(config: Any, batch: int) -> dict[str, torch.Tensor]:
    """A picture that was cut into patches beforehand."""
    patches = torch.randn(1, SOUND, 3 * config.patch_size**2).expand(batch, -1, -1)
    return {
        "pixel_values": patches,
        "pixel_attention_mask": torch.ones(patches.shape[:2]),
        "spatial_shapes": torch.full((batch, 2), PICTURE // 2),
    }


def _waves(config: Any) -> tuple[int, ...]:
    """The shape of a spectrogram seen as a picture or, where convolutions make its frames, of the sound itself."""
    convolved = hasattr(config, "conv_dim")
    if hasattr(config, "num_mel_bins") and not convolved:
        return PICTURE, PICTURE
    return (SOUND * (2 if convolved else 384),)


def _features(config: Any) -> tuple[int, ...]:
    """The shape of a spectrogram: frames by bins, or the other way round."""
    if hasattr(config, "feature_projection_input_dim"):
        return SOUND, config.feature_projection_input_dim
    if hasattr(config, "input_feat_per_channel"):
        return 2 * SOUND, config.input_feat_per_channel
    return getattr(config, "num_mel_bins", 0), 2 * SOUND
