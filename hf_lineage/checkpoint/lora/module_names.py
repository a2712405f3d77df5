"""Module names: the tensor of a model that belongs to a module, as an adapter names it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Hashable

LAYERED = re.compile(r"(?P<before>(?:[^.]+\.)*?)(?P<layer>[^.]+\.\d+\..+)")
"""The name of a module in a layer."""
WEIGHT = ".weight"


class ModuleNames:
    """The names of a model's tensors, in which modules are looked up."""

    def __init__(self, tensors: Collection[str]) -> None:
        self._exact = frozenset(tensors)
        self._rest: dict[str, list[str]] = defaultdict(list)
        self._parts: dict[Hashable, list[str]] = defaultdict(list)
        self._flat: dict[str, list[str]] = defaultdict(list)
        for name in tensors:
            self._rest[name.partition(".")[2]].append(name)
            if name.endswith(WEIGHT):
                self._parts[_parts(name.removesuffix(WEIGHT))].append(name)
                self._flat[flat(name.removesuffix(WEIGHT))].append(name)

    def tensor(self, module: str) -> str | None:
        """Return the tensor of a module, with the prefix of the class or without; None if there is not exactly one.

        The words before the layers may stand in another order in a class of several models: transformers turns
        `language_model.model` into `model.language_model` when it loads them.
        """
        inner = module.partition(".")[2]
        exact = [name for name in (f"{module}{WEIGHT}", f"{inner}{WEIGHT}") if name in self._exact]
        named = exact[:1] or self._rest.get(f"{module}{WEIGHT}", []) or self._parts.get(_parts(module), [])
        return named[0] if len(named) == 1 else None

    def flattened(self, module: str) -> list[str]:
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
