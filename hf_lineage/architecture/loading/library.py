"""Library: which one wrote a `config.json`, and so which files of the folder are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def of_diffusers(config: Mapping[str, Any]) -> bool:
    """Return whether diffusers wrote `config.json`: only where no key asks transformers to load the folder.

    >>> of_diffusers({"_class_name": "UNet2DConditionModel", "_diffusers_version": "0.30"})
    True
    >>> of_diffusers({"_class_name": "SomeUNet", "architectures": ["SomeForCausalLM"]})
    False
    """
    return "_class_name" in config and not {"architectures", "model_type"} & config.keys()
