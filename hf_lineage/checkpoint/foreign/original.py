"""Makers' files: the class and the configuration that `params.json` stands for, and the names on the Hub's disk."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from hf_lineage.architecture.registry import Setting, read_table, registry_root, setting
from hf_lineage.checkpoint.foreign.named import Named
from hf_lineage.errors import NothingToCompare, printable

FILE = "makers/consolidated.yaml"
KIND, PLAIN = "model_type", "transformer"
"""The key that says what kind of model it is, and the only kind that is read."""


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"name": "class"}):
    name: str
    with_experts: str
    settings: dict[str, str]
    constants: dict[str, Setting]
    ignores: tuple[str, ...]
    names: dict[str, str]
    rotated: tuple[str, ...]


@functools.cache
def _table() -> _Table:
    table: _Table = read_table(registry_root(), FILE, _Table)
    return table


def config_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration that `params.json` stands for, as `config.json` would say it.

    Raise NothingToCompare where it describes more than the layers of a language model.
    """
    table = _table()
    known = {key.partition(".")[0] for key in table.settings.values()} | {*table.ignores}
    known |= {KIND} if params.get(KIND) == PLAIN else set()
    other = next((key for key, value in params.items() if value and key not in known), None)
    if other is not None:
        raise NothingToCompare(
            f"params.json says `{printable(other, 50)}`, which is more than the layers of a language model; "
            "check the release that has a config.json"
        )
    values = {key: setting(params, source) for key, source in table.settings.items()}
    config = {key: value for key, value in values.items() if isinstance(value, int | float)}
    return {"architectures": [table.with_experts if params.get("moe") else table.name], **config, **table.constants}


def names(stored: Iterable[str]) -> Iterator[Named]:
    """Yield every tensor by the name that it has on the Hub's disk; one that is not known keeps its own."""
    for name in stored:
        bare, dot, suffix = name.rpartition(".")
        pattern, layer, expert = _pattern(bare if suffix in ("weight", "bias") else "")
        if pattern is None:
            yield Named(name, name)
            continue
        full = _table().names[pattern].replace("{layer}", layer).replace("{expert}", expert)
        yield Named(f"{full}{dot}{suffix}", name, "rotated" if pattern in _table().rotated else None)


def _pattern(bare: str) -> tuple[str | None, str, str]:
    """The known name that a tensor has, and the numbers of its layer and of its expert in it."""
    layer = re.match(r"layers\.(\d{1,6})\.", bare)
    expert = re.search(r"\.experts\.(\d{1,6})\.", bare)
    numbers = [match[1] if match else "" for match in (layer, expert)]
    pattern = bare.replace(f"layers.{numbers[0]}.", "layers.{layer}.", 1) if layer else bare
    pattern = pattern.replace(f".experts.{numbers[1]}.", ".experts.{expert}.", 1) if expert else pattern
    return pattern if pattern in _table().names else None, numbers[0], numbers[1]
