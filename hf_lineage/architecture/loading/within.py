"""Within: where in a repository's weights and `config.json` a model is that is a part of it, or has other names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
STORAGE = ("quantization_config", "compression_config")
"""Keys at the top of `config.json` that say how the weights of all parts are stored."""


@dataclass(frozen=True)
class Within:
    """What has to be taken off the names of a model, and which settings are its own, to read it as its class."""

    prefix: str = ""
    """What the names of its tensors begin with; all others belong to other parts."""
    settings: str = ""
    """The key of `config.json` that holds its settings; empty where they are at the top."""
    layers: str = ""
    """The prefix of its layers as they are stored, with `{layer}`, where names in them are other ones."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Names in a layer, each with that of the class."""

    def tensors(self, stored: Mapping[str, T]) -> dict[str, T]:
        """Return its tensors by the names of its class."""
        here = {name: each for name, each in stored.items() if name.startswith(self.prefix)}
        return {self._named(name).removeprefix(self.prefix): each for name, each in here.items()}

    def config(self, whole: Mapping[str, Any]) -> dict[str, Any]:
        """Return its settings, with those of the storage."""
        own = whole.get(self.settings) if self.settings else whole
        return {key: whole[key] for key in STORAGE if key in whole} | dict(own if isinstance(own, Mapping) else {})

    def _named(self, name: str) -> str:
        layer = (
            re.match(re.escape(self.layers).replace(r"\{layer\}", r"\d{1,6}") + r"\.", name) if self.renamed else None
        )
        inside = name[layer.end() :] if layer else ""
        old = next((old for old in self.renamed if inside == old or inside.startswith(f"{old}.")), None)
        return name if layer is None or old is None else f"{layer[0]}{self.renamed[old]}{inside[len(old) :]}"
