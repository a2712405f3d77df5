"""Options of a signature: the recipe and the paths, on which it depends besides the weights.

A field that takes several kinds of value and holds one kind is a descriptor, so that a type checker knows both;
`hf_lineage.checking.settings` turns one into the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from hf_lineage.architecture.registry import NAMED, PATHS, USUAL
from hf_lineage.errors import OptionError
from hf_lineage.signature.recipe import RECIPES, Recipe


class _Field:
    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name


class OptionalPath(_Field):
    """A path, which may be given as text; None by default."""

    @overload
    def __get__(self, instance: None, owner: type) -> None: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Path | None: ...
    def __get__(self, instance: object | None, owner: type) -> Path | None:
        """Return the path of an instance, or the default, None, for the class itself."""
        path: Path | None = None if instance is None else vars(instance)[self._name]
        return path

    def __set__(self, instance: object, value: str | os.PathLike[str] | None) -> None:
        """Keep a path."""
        vars(instance)[self._name] = value


class Names(_Field):
    """Names, of which one may be given by itself, and each as text or as a path; by default those named here."""

    def __init__(self, *default: str) -> None:
        self._default = default

    @overload
    def __get__(self, instance: None, owner: type) -> tuple[str, ...]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> tuple[str, ...]: ...
    def __get__(self, instance: object | None, owner: type) -> tuple[str, ...]:
        """Return the names of an instance, or the default for the class itself."""
        names: tuple[str, ...] = self._default if instance is None else vars(instance)[self._name]
        return names

    def __set__(self, instance: object, value: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> None:
        """Keep names."""
        vars(instance)[self._name] = value


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The specification of a signature: its recipe and its paths; OptionError for an unknown path."""

    recipe: Recipe = RECIPES["robust"]
    paths: Names = Names(*USUAL)
    """Names of paths, or a name in NAMED."""

    def __post_init__(self) -> None:
        if self.paths in NAMED:
            return
        unknown = [path for path in self.paths if path not in PATHS]
        if unknown or not self.paths or len(set(self.paths)) != len(self.paths):
            raise OptionError(
                f"paths must be all, usual, or some of {', '.join(PATHS)}, each once, not {', '.join(self.paths)}"
            )
