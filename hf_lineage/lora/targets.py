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

LAYER = re.compile(r".*?\.[^.]*\.(?P<number>\d{1,9})\.")
"""The first number in the name of a module is that of its layer."""
BASES = (None, "FEATURE_EXTRACTION")  # the tasks of an adapter with which its base is loaded without a head
DEEPEST = 32  # no name of a module has more words
WRAPPED = ".base_layer"  # the end that peft adds to the name of a module whose parameters it adapts one after the other
EXPERTS, WEIGHT = "experts", "weight"
"""The module that holds the parameters of a stack of experts, and the parameter of a plain matrix."""
Names = frozenset[str]


def find_idle(config: Mapping[str, Any], modules: Collection[str]) -> Names:
    """Return those of some modules, by their names, whose factors peft passes over under an adapter's configuration."""
    keys = ("exclude_modules", "modules_to_save", "target_parameters")
    excluded, saved, parameters = (_names(config.get(key)) or Names() for key in keys)
    named, layers = config.get("target_modules"), _layers(config)
    # None where all modules are adapted, or where a pattern chooses them.
    adapted = Names() if named is None and parameters else _names(named)
    bare = Names(name for name in parameters if "." not in name)  # adapted wherever they are
    holders = Names(name.rpartition(".")[0] for name in parameters - bare)

    def is_adapted(module: str) -> bool:
        """Return whether a module is adapted as a whole."""
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

    def holds_adapted(module: str) -> bool:
        """Return whether parameters of a module may be adapted; its name does not tell the parameters that it holds."""
        words = module.replace(WRAPPED, "").split(".")
        anywhere = WEIGHT in bare or (words[-1] == EXPERTS and bool(bare))
        return anywhere or bool(_ends(words) & holders)

    shallow = [name for name in modules if name.count(".") < DEEPEST]
    return Names(modules) - {name for name in shallow if is_adapted(name) or holds_adapted(name)}


def _ends(words: Sequence[str]) -> set[str]:
    """Return a name, and every end of it that begins at a later word."""
    return {".".join(words[start:]) for start in range(len(words))}


def _names(listed: Any) -> Names | None:
    """Return the names in a list; None where there is no list."""
    return Names(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else None


def _layers(config: Mapping[str, Any]) -> frozenset[int] | None:
    numbers = config.get("layers_to_transform")
    if numbers in (None, []) or config.get("layers_pattern"):
        return None
    return frozenset(one for one in (numbers if isinstance(numbers, list) else [numbers]) if isinstance(one, int))


LAYERED = re.compile(r"(?P<before>(?:[^.]+\.)*?)(?P<layer>[^.]+\.\d+\..+)")  # the name of a module in a layer
WEIGHT_ENDING = ".weight"


class ModuleNames:
    """The names of a model's tensors, in which modules are looked up."""

    def __init__(self, tensors: Collection[str]) -> None:
        self._exact = frozenset(tensors)
        self._rest: dict[str, list[str]] = defaultdict(list)
        self._parts: dict[Hashable, list[str]] = defaultdict(list)
        self._flat: dict[str, list[str]] = defaultdict(list)
        for name in tensors:
            self._rest[name.partition(".")[2]].append(name)
            if name.endswith(WEIGHT_ENDING):
                self._parts[_parts(name.removesuffix(WEIGHT_ENDING))].append(name)
                self._flat[flat(name.removesuffix(WEIGHT_ENDING))].append(name)

    def tensor(self, module: str) -> str | None:
        """Return the tensor of a module, with the prefix of the class or without; None if there is not exactly one.

        The words before the layers may stand in another order in a class of several models: transformers turns
        `language_model.model` into `model.language_model` when it loads them.
        """
        inner = module.partition(".")[2]
        exact = [name for name in (f"{module}{WEIGHT_ENDING}", f"{inner}{WEIGHT_ENDING}") if name in self._exact]
        matches = exact[:1] or self._rest.get(f"{module}{WEIGHT_ENDING}", []) or self._parts.get(_parts(module), [])
        return matches[0] if len(matches) == 1 else None

    def find_flattened(self, module: str) -> list[str]:
        """Return the tensors of a module in whose name every point was made an underscore, of which several may be."""
        return self._flat.get(module, [])


def flat(name: str) -> str:
    """Return a name with underscores in place of points.

    >>> flat("mid_block.attentions.0.proj_in")
    'mid_block_attentions_0_proj_in'
    """
    return name.replace(".", "_")


def _parts(name: str) -> Hashable:
    """Return the words before the layers in a name, without `model`, and the rest; None for a name in no layer."""
    layered = LAYERED.fullmatch(name)
    return layered and (frozenset(layered["before"].split(".")) - {"model", ""}, layered["layer"])
