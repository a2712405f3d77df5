"""Fields of options that take what people write, and hold one kind of value: a path, or names.

They are descriptors because a type checker then knows both kinds; `hf_lineage.checking.option_types` turns one into the
other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, overload


class _Field:
    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def _of(self, instance: object) -> Any:
        return vars(instance)[self._name]

    def _keep(self, instance: object, value: object) -> None:
        vars(instance)[self._name] = value


class OptionalPath(_Field):
    """A path, which may be given as text; None by default."""

    @overload
    def __get__(self, instance: None, owner: type) -> None: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Path | None: ...
    def __get__(self, instance: object | None, owner: type) -> Path | None:
        """Return the path of an instance; of the class, for which the default is asked, None."""
        path: Path | None = None if instance is None else self._of(instance)
        return path

    def __set__(self, instance: object, value: str | os.PathLike[str] | None) -> None:
        """Keep a path."""
        self._keep(instance, value)


class Names(_Field):
    """Names, of which one may be given by itself, and each as text or as a path; by default those named here."""

    def __init__(self, *default: str) -> None:
        self._default = default

    @overload
    def __get__(self, instance: None, owner: type) -> tuple[str, ...]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> tuple[str, ...]: ...
    def __get__(self, instance: object | None, owner: type) -> tuple[str, ...]:
        """Return the names of an instance; of the class, for which the default is asked, the default."""
        names: tuple[str, ...] = self._default if instance is None else self._of(instance)
        return names

    def __set__(self, instance: object, value: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> None:
        """Keep names."""
        self._keep(instance, value)
