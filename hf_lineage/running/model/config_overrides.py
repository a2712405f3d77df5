"""Overrides: what a tiny model takes over from the `config.json` of a real one, which is untrusted input.

Taken over is what chooses between forms of a class: switches that are on or off, and words such as an activation. Sizes
are those of every tiny model. Nothing is taken over that may name a repository or ask for code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hf_lineage.architecture.loading import ALIASES

WORD = re.compile(r"[A-Za-z][\w.+-]{0,60}", re.ASCII)
"""An activation, a kind of layer, a type of model."""
REFUSED = re.compile(r"backbone|pretrained|implementation|kernel|remote|auto_map|name_or_path|quantiz|dtype|class")
"""Parts of keys that name what is to be loaded, or how it is to be computed."""
MOST_KINDS = 8
"""Kinds of layers of one model."""


def select_overrides(config: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a tiny model of a class is asked for; `inner` are the keys of its configurations in others."""
    asked: dict[str, Any] = {}
    for key, value in config.items():
        if REFUSED.search(key):
            continue
        if isinstance(value, bool) or (isinstance(value, str) and WORD.fullmatch(value)):
            asked[key] = value
        elif isinstance(value, dict) and key in inner:
            asked[key] = select_overrides(value, {})
    return asked | _kinds(config)


def _kinds(config: Mapping[str, Any]) -> dict[str, Any]:
    """A layer of each kind, by every list that names the kinds of all layers; nothing where there is no such list."""
    depth = next((config[key] for key in ALIASES if isinstance(config.get(key), int)), None)
    lists = {
        key: value
        for key, value in config.items()
        if isinstance(value, list) and len(value) == depth and all(isinstance(kind, str) for kind in value)
    }
    kinds = list(dict.fromkeys(zip(*lists.values(), strict=True)))[:MOST_KINDS]
    if not kinds:
        return {}
    layers = kinds if len(kinds) > 1 else kinds * 2
    return dict(zip(lists, map(list, zip(*layers, strict=True)), strict=True)) | {"num_hidden_layers": len(layers)}
