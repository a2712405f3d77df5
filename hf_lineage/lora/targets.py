"""Targets: the modules to which peft gives the factors of an adapter, and their tensors in a model.

The rules are those of `check_target_module_exists` and of `target_parameters` in peft 0.19. A pattern in place of a
list of names is not run, for it may take for ever: it is taken to mean every module.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

LAYER = re.compile(r".*?\.[^.]*\.(?P<number>\d{1,9})\.")  # the first number in a module's name is that of its layer
BASES = (None, "FEATURE_EXTRACTION")  # the tasks of an adapter with which its base is loaded without a head
Names = frozenset[str]


def find_idle(config: Mapping[str, Any], modules: Collection[str]) -> Names:
    """Return those of some modules, by their names, whose factors peft passes over under an adapter's configuration."""
    keys = ("exclude_modules", "modules_to_save", "target_parameters")
    excluded, saved, parameters = (_names(config.get(key)) or Names() for key in keys)
    named = config.get("target_modules")
    numbers = None if config.get("layers_pattern") else config.get("layers_to_transform")
    listed = numbers if isinstance(numbers, list) else [numbers]
    layers = None if numbers in (None, []) else {one for one in listed if isinstance(one, int)}
    # None where all modules are adapted, or where a pattern chooses them.
    adapted = Names() if named is None and parameters else _names(named)
    bare = Names(name for name in parameters if "." not in name)  # adapted wherever they are
    holders = Names(name.rpartition(".")[0] for name in parameters - bare)

    def is_adapted(module: str) -> bool:
        # Parameters of a module may be adapted, and its name does not tell which it holds. peft adds `.base_layer` to a
        # name for every further one.
        words = module.replace(".base_layer", "").split(".")
        if "weight" in bare or (words[-1] == "experts" and bare) or _ends(words) & holders:
            return True
        words = module.split(".")
        within = {".".join(words[start:stop]) for start, stop in combinations(range(len(words) + 1), 2)}
        ends = _ends(words)
        if ends & excluded or within & saved:
            return False
        if adapted is None or module in adapted:
            return True
        layer = LAYER.match(module)
        here = layers is None or (layer is not None and int(layer["number"]) in layers)
        return here and bool(ends & adapted)

    shallow = [name for name in modules if name.count(".") < 32]  # no name of a module has more words
    return Names(modules) - {name for name in shallow if is_adapted(name)}


def _ends(words: Sequence[str]) -> set[str]:
    return {".".join(words[start:]) for start in range(len(words))}  # the name, and ends from later words


def _names(listed: Any) -> Names | None:
    return Names(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else None


LAYERED = re.compile(r"(?P<before>(?:[^.]+\.)*?)(?P<layer>[^.]+\.\d+\..+)")  # the name of a module in a layer


class ModuleNames:
    """The names of a model's tensors, in which modules are looked up."""

    def __init__(self, tensors: Collection[str]) -> None:
        self._exact = frozenset(tensors)
        self._rest: dict[str, list[str]] = defaultdict(list)
        self._parts: dict[Hashable, list[str]] = defaultdict(list)
        self.flattened: dict[str, list[str]] = defaultdict(list)  # by names in which every point is an underscore
        for name in tensors:
            self._rest[name.partition(".")[2]].append(name)
            if name.endswith(".weight"):
                self._parts[_parts(name.removesuffix(".weight"))].append(name)
                self.flattened[flat(name.removesuffix(".weight"))].append(name)

    def tensor(self, module: str) -> str | None:
        """Return the tensor of a module, with the prefix of the class or without; None if there is not exactly one."""
        # Words before the layers may be in another order: `language_model.model` is loaded as `model.language_model`.
        inner = module.partition(".")[2]
        exact = [name for name in (f"{module}.weight", f"{inner}.weight") if name in self._exact]
        matches = exact[:1] or self._rest.get(f"{module}.weight", []) or self._parts.get(_parts(module), [])
        return matches[0] if len(matches) == 1 else None


def flat(name: str) -> str:
    """Return a name with underscores in place of points."""
    return name.replace(".", "_")


def _parts(name: str) -> Hashable:
    """Return the words before the layers in a name, without `model`, and the rest; None for a name in no layer."""
    layered = LAYERED.fullmatch(name)
    return layered and (frozenset(layered["before"].split(".")) - {"model", ""}, layered["layer"])
