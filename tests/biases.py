"""Write the table of biases that transformers' classes load anew: `python -m tests.biases`.

Every class that the registry lists is made, saved and looked at, with every setting of its own that speaks of biases.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import transformers
from safetensors import safe_open

from hf_lineage.architecture.biases import VECTORS, vectors
from hf_lineage.architecture.layout import bind
from hf_lineage.architecture.loading import as_loaded
from hf_lineage.architecture.lookup import factorizations
from hf_lineage.architecture.schema import Factorization
from tests.conformance import required, tiny_model, variants

TABLE = Path("registry/loading/biases.json")
WORD = "bias"


def loaded(listed: Factorization, name: str, wanted: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The configuration of a tiny model of a class, and which of the vectors some layer of it has."""
    with tempfile.TemporaryDirectory() as folder:
        tiny_model(name, dict(wanted)).save_pretrained(folder)
        config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        shapes: dict[str, tuple[int, ...]] = {}
        for file in Path(folder).glob("*.safetensors"):
            with safe_open(file, "numpy") as stored:
                shapes |= {key: tuple(stored.get_slice(key).get_shape()) for key in stored.keys()}  # noqa: SIM118
    layout = bind(listed, as_loaded(listed, shapes, config).shapes, config)
    return config, {kind for sets in layout.branches["mlp"] for one in sets for kind, _ in vectors(one)}


def settings(config: Mapping[str, Any], outer: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The places of all settings that speak of biases and are true or false, with their values."""
    for key, value in config.items():
        if isinstance(value, dict) and len(outer) < 1:
            yield from settings(value, (*outer, key))
        elif isinstance(value, bool) and WORD in key:
            yield (*outer, key), value


def flipped(wanted: Mapping[str, Any], place: tuple[str, ...], value: bool) -> dict[str, Any]:
    """The settings with one more."""
    if len(place) == 1:
        return {**wanted, place[0]: value}
    return {**wanted, place[0]: {**wanted.get(place[0], {}), place[1]: value}}


def of_class(listed: Factorization, name: str) -> dict[str, Any]:
    """By vector how a class has it: true, or a key, the value that asks for it, and whether it does by default."""
    kinds = [required(listed, name, variant) for variant in variants(name)]
    found = [loaded(listed, name, wanted) for wanted in kinds]
    everywhere: dict[str, Any] = {kind: True for _, vectors in found for kind in vectors}
    config, have = found[0]
    for place, value in settings(config):
        try:
            _, other = loaded(listed, name, flipped(kinds[0], place, not value))
        except Exception:
            continue
        for kind in have ^ other:
            asked = value if kind in have else not value
            everywhere[kind] = [".".join(place), asked, default(name, place, value) == asked]
    return everywhere


def default(name: str, place: tuple[str, ...], otherwise: bool) -> bool:
    """What the configuration of a class says where the file does not."""
    try:
        config: Any = getattr(transformers, name).config_class().to_dict()
        for key in place:
            config = config[key]
    except Exception:
        return otherwise
    return bool(config)


def table() -> str:
    """The whole file."""
    groups: dict[str, list[str]] = defaultdict(list)
    for listed in factorizations():
        for name in (name for name in listed.classes if hasattr(transformers, name)):
            try:
                has = of_class(listed, name)
            except Exception as error:
                print(f"{name}: {error!r}"[:200], flush=True)
                continue
            groups[json.dumps({kind: has[kind] for kind in VECTORS if kind in has})].append(name)
    rows = sorted((sorted(set(names)), has) for has, names in groups.items())
    return "[\n" + ",\n".join(f'{{"has": {has}, "classes": {json.dumps(names)}}}' for names, has in rows) + "\n]\n"


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
