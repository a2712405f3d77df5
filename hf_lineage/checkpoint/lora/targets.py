"""Targets: the modules to which peft gives the factors of an adapter; all others it passes over without a word.

The rules are those of `check_target_module_exists` in peft 0.19. A pattern in place of a list of names is not run, for
it may take for ever: it is taken to mean every module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

LAYER = re.compile(r".*?\.[^.]*\.(?P<number>\d{1,9})\.")
"""The first number in the name of a module is that of its layer."""
BASES = (None, "FEATURE_EXTRACTION")
"""The tasks of an adapter with which its base is loaded without a head."""


def is_targeted(config: Mapping[str, Any], module: str) -> bool:
    """Return whether an adapter's configuration lets peft adapt a module, by the name of the module."""
    targets, excluded = config.get("target_modules"), config.get("exclude_modules")
    if isinstance(excluded, list) and _is_named(excluded, module):
        return False
    if not isinstance(targets, list):
        return targets is not None or not config.get("target_parameters")
    numbers = config.get("layers_to_transform")
    if module in targets or not _is_named(targets, module) or numbers in (None, []) or config.get("layers_pattern"):
        return _is_named(targets, module)
    layer = LAYER.match(module)
    return layer is not None and int(layer["number"]) in (numbers if isinstance(numbers, list) else [numbers])


def _is_named(names: list[Any], module: str) -> bool:
    return any(module == name or module.endswith(f".{name}") for name in names)
