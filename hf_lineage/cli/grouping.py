"""Options that belong together: the values of several options of a command as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hf_lineage.cli.shared import write

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Group = TypeVar("Group", bound="DataclassInstance")


def take(group: type[Group], settings: dict[str, Any]) -> Group:
    """Take the values of the options of a group out of those of a command; its fields are called as they are."""
    return group(**{field.name: settings.pop(field.name) for field in fields(group)})


@dataclass(frozen=True)
class Result:
    """Where the result of a command that judges no claims goes, in which format."""

    form: str
    output: Path | None

    def write(self, forms: Mapping[str, Callable[..., str]], *values: Any, coloured: bool = False) -> None:
        """Write values by one of the formats of the command; `coloured` counts for text alone."""
        write(forms[self.form](*values), self.output, coloured=coloured and self.form == "text")
