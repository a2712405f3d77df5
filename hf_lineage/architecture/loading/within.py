"""Within: the place of a model that is a part of a repository's weights and `config.json`, or has other names there."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hf_lineage.architecture.loading.settings import QUANTIZED
from hf_lineage.architecture.registry import setting
from hf_lineage.errors import Ambiguous, NothingToCompare

T = TypeVar("T")


@dataclass(frozen=True)
class Within:
    """The prefix of the names, the settings and the renaming by which a part of a model is read as its class."""

    prefixes: tuple[str, ...] = ("",)
    """Possible prefixes of its tensors' names; one has to be on disk, and all other tensors are of other parts."""
    settings: str = ""
    """The key of `config.json` that holds its settings; empty where they are at the top."""
    layers: str = ""
    """The prefix of its layers as they are stored, with `{layer}`, where names in the layers are not the class's."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Stored name in a layer -> the name in the class."""

    def place(self, stored: Collection[str]) -> str:
        """Return the prefix of its tensors' names on disk; NothingToCompare unless they stand in just one place."""
        places = [prefix for prefix in self.prefixes if any(name.startswith(prefix) for name in stored)]
        if len(places) != 1:
            where = f"under {' and '.join(places)}: loaders disagree on which is the model" if places else "nowhere"
            error = Ambiguous if places else NothingToCompare
            raise error(f"tensors that may stand under {' or '.join(self.prefixes)} stand {where}")
        return places[0]

    def tensors(self, stored: Mapping[str, T]) -> dict[str, T]:
        """Return its tensors by the names of its class; NothingToCompare unless they stand in just one place."""
        place = self.place(stored)
        here = {name: each for name, each in stored.items() if name.startswith(place)}
        return {self._named(name).removeprefix(place): each for name, each in here.items()}

    def config(self, whole: Mapping[str, Any]) -> dict[str, Any]:
        """Return its settings, with those of the storage."""
        own = setting(whole, self.settings) if self.settings else whole
        return {key: whole[key] for key in QUANTIZED if key in whole} | dict(own if isinstance(own, Mapping) else {})

    def _named(self, name: str) -> str:
        layer = (
            re.match(re.escape(self.layers).replace(r"\{layer\}", r"\d{1,6}") + r"\.", name) if self.renamed else None
        )
        inside = name[layer.end() :] if layer else ""
        old = next((old for old in self.renamed if inside == old or inside.startswith(f"{old}.")), None)
        return name if layer is None or old is None else f"{layer[0]}{self.renamed[old]}{inside[len(old) :]}"
