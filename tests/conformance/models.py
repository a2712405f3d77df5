"""Tiny models of a class, every parameter random, and what they are given to read."""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from hf_lineage.registry import Factorization, setting
from tests.conformance.wanted import HEADS, PICTURE, SOUND, TINY, WIDTH

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

POSITIONS = re.compile(r"(rel_embeddings|embed_positions|distance_embedding)\.")
"""Tables of positions that attention multiplies with queries and keys."""
DISTANCES = re.compile(r"linear_pos\.")
"""What attention makes of fixed positions before it multiplies them with queries."""


def tiny_config(name: str, wanted: dict[str, Any]) -> Any:
    """The configuration of a tiny model of a class; `wanted` outranks the generic request."""
    config_class = getattr(transformers, name).config_class
    config = config_class(**_asked(config_class, copy.deepcopy(wanted)))
    config.architectures = [name]
    config._attn_implementation = config._experts_implementation = "eager"
    return config


def _asked(config_class: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """The generic request, as far as a configuration has the attributes, and that for each configuration in it."""
    defaults = config_class()
    fixed = {key for key in TINY if isinstance(getattr(config_class, key, None), property)}
    asked = {key: value for key, value in TINY.items() if hasattr(defaults, key) and key not in fixed} | wanted
    if "mrope_section" in (rotary := getattr(defaults, "rope_parameters", None) or {}):
        size = (asked.get("head_dim") or WIDTH // HEADS) * rotary.get("partial_rotary_factor", 1)
        asked["rope_parameters"] = {**rotary, "mrope_section": _sections(int(size) // 2)}
    for key in config_class.sub_configs:
        if inner := getattr(defaults, key, None):
            said = {"model_type": inner.model_type} | wanted.get(key, {})
            kind = type(inner) if said["model_type"] == inner.model_type else CONFIG_MAPPING[said["model_type"]]
            asked[key] = _asked(kind, said)
    return asked


def required(factorization: Factorization, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """A request, and what a factorization asks of `config.json` beyond what the class has by itself."""
    asked = copy.deepcopy(wanted)
    defaults = getattr(transformers, name).config_class().to_dict()
    for key, value in factorization.requires.items():
        if not isinstance(value, tuple) or setting(defaults, key) not in value:
            *outer, last = key.split(".")
            within = functools.reduce(lambda within, part: within.setdefault(part, {}), outer, asked)
            within.setdefault(last, value[0] if isinstance(value, tuple) else value)
    return asked


def _sections(angles: int) -> list[int]:
    """Rotary angles divided between time, height and width."""
    return [angles - 2 * (angles // 3), angles // 3, angles // 3]


def sample(model: Any, batch: int, length: int = 1) -> dict[str, torch.Tensor]:
    """What a model takes: so many tokens or, of pictures and sounds, what makes enough of them, or both."""
    accepted = inspect.signature(model.forward).parameters
    config = getattr(model.config, "vision_config", model.config)
    if "input_ids" not in accepted:
        return _seen_or_heard(config, accepted, batch)
    tokens = torch.arange(3, 3 + length).fmod(60).expand(batch, length)
    read = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    return read | (_seen_or_heard(config, accepted, batch) if _takes_both(model, accepted) else {})


def _takes_both(model: Any, accepted: Mapping[str, inspect.Parameter]) -> bool:
    """Whether a model that reads has to see too: one of two towers, or one stack that is given both."""
    required = "pixel_values" in accepted and accepted["pixel_values"].default is inspect.Parameter.empty
    one_stack = "pixel_mask" in accepted and not hasattr(model.config, "text_config")
    return required or one_stack or hasattr(runner(model), "get_text_features")


def _seen_or_heard(config: Any, accepted: Iterable[str], batch: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    if "spatial_shapes" in accepted:  # of pictures that are cut into patches beforehand
        patches = torch.randn(1, SOUND, 3 * config.patch_size**2).expand(batch, -1, -1)
        return {
            "pixel_values": patches,
            "pixel_attention_mask": torch.ones(patches.shape[:2]),
            "spatial_shapes": torch.full((batch, 2), PICTURE // 2),
        }
    frames = [config.num_frames] if hasattr(config, "num_frames") else []
    pixels = 2 * PICTURE if hasattr(config, "depths") else PICTURE  # every stage halves them
    shapes = {
        "pixel_values": (*frames, getattr(config, "num_channels", 3), pixels, pixels),
        "input_values": (PICTURE, PICTURE) if hasattr(config, "num_mel_bins") else (2 * SOUND,),
        "input_features": (SOUND, config.feature_projection_input_dim)
        if hasattr(config, "feature_projection_input_dim")
        else (getattr(config, "num_mel_bins", 0), 2 * SOUND),
    }
    name = next(name for name in shapes if name in accepted)
    return {name: torch.randn(1, *shapes[name]).expand(batch, *shapes[name])}


def runner(model: Any) -> Any:
    """The part of a model to run: its base, unless that asks for more than what a file's owner would put in."""
    base = model.base_model
    accepted = inspect.signature(base.forward).parameters
    return base if accepted.keys() & {"input_ids", "pixel_values", "input_values", "input_features"} else model


def tiny_model(name: str, wanted: dict[str, Any]) -> Any:
    """A tiny model with every parameter random, norms and biases too."""
    build = getattr(transformers, name)
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in build(tiny_config(name, wanted)).parameters())
    assert size < 8_000_000, f"{name} has {size} parameters; shrink it in VARIANTS"
    torch.manual_seed(0)
    model = build(tiny_config(name, wanted)).eval()
    for key, parameter in model.named_parameters():
        if POSITIONS.search(key):
            parameter.data[:] = parameter.data[0].clone()  # every token stands at one place, relative or absolute
            continue
        parameter.data.normal_(std=0.0 if DISTANCES.search(key) else 0.3)
        if key.endswith("sinks"):
            parameter.data.fill_(-1e4)  # attention to the only token is 1, not shared with a sink
    for key, buffer in model.named_buffers():
        if key.endswith("running_mean"):
            buffer.normal_(std=0.3)
        if key.endswith("running_var"):
            buffer.uniform_(0.5, 2.0)
    return model
