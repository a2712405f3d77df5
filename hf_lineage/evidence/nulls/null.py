"""Null: what every null says of one path, whatever its method; the first that holds decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Null(Protocol):
    """The distribution of the score of one path between independent models."""

    @property
    def name(self) -> str:
        """One word, for reports."""

    @property
    def p_value(self) -> float:
        """The p-value of this path, before it is corrected for interim analyses."""

    @property
    def p_over_paths(self) -> float:
        """The p-value corrected for several paths, and not for interim analyses."""

    @property
    def correction(self) -> str:
        """The name of the correction of the p-value for several paths."""

    @property
    def objection(self) -> str:
        """Why this null cannot decide a verdict; empty if it can."""

    @property
    def admits(self) -> bool:
        """Whether the verdict may be RELATED where another null decides."""

    def describe(self) -> str:
        """Return in words the null that the score is compared with."""


def deciding(nulls: Sequence[Null]) -> Null | None:
    """Return the null that decides the verdict, the first without an objection; None if all have one."""
    return next((null for null in nulls if not null.objection), None)
