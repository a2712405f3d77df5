"""Libraries: the `config.json` of diffusers and of timm, with the keys by which transformers names a class.

diffusers writes the name of its class, and timm that of an architecture, which stands for a class with its settings:
`loading/timm.json` of the registry says which, for every architecture on whose real module its factorization was
proved. Such a class is listed with the name of its library in front, so no `config.json` of transformers can mean it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from hf_lineage.architecture.registry import read_table, registry_root

DIFFUSERS, TIMM = "diffusers.", "timm."
STRUCTURE = ("num_heads", "depth", "depths")
"""Settings of an architecture that `model_args` may say otherwise."""


def of_diffusers(config: Mapping[str, Any]) -> bool:
    """Return whether diffusers wrote `config.json`: only where no key asks transformers to load the folder.

    >>> of_diffusers({"_class_name": "UNet2DConditionModel", "_diffusers_version": "0.30"})
    True
    >>> of_diffusers({"_class_name": "SomeUNet", "architectures": ["SomeForCausalLM"]})
    False
    """
    return "_class_name" in config and not {"architectures", "model_type"} & config.keys()


def as_listed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `config.json` with the class that the registry lists, where another library than transformers wrote it."""
    if "architectures" in config or "model_type" in config:
        return dict(config)
    if of_diffusers(config) and isinstance(name := config["_class_name"], str):
        return {**config, "architectures": [f"{DIFFUSERS}{name}"]}
    if isinstance(name := config.get("architecture"), str):
        return {**config, "architectures": [f"{name} of timm"]} | _settings(name, config.get("model_args"))
    return dict(config)


def _settings(name: str, arguments: object) -> dict[str, Any]:
    """The class of an architecture of timm, without its tag, if it is known, and its settings."""
    known = timm_architectures().get(name.partition(".")[0], {})
    others = {key: arguments[key] for key in STRUCTURE if key in arguments} if isinstance(arguments, dict) else {}
    return {**known, **others}


@functools.cache
def timm_architectures() -> Mapping[str, dict[str, Any]]:
    """Return architecture of timm -> its class, as `architectures`, and its settings."""
    kinds = read_table(registry_root(), "loading/timm.json", dict[str, dict[str, dict[str, Any]]])
    return {
        name: {"architectures": [f"{TIMM}{kind}"], **settings}
        for kind, architectures in kinds.items()
        for name, settings in architectures.items()
    }
