"""Failures: the errors that do not end a check, and the verdicts that replace them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hf_lineage.errors import CheckpointError, LineageError, NothingToCompare, RepositoryError
from hf_lineage.evidence import Kind, Verdict

T = TypeVar("T")

VERDICTS: dict[type[LineageError], Kind] = {
    NothingToCompare: Kind.UNVERIFIABLE,
    RepositoryError: Kind.UNVERIFIABLE,
    CheckpointError: Kind.UNREADABLE,
}
"""The kind of verdict for each error of a base; of the candidate only the first becomes one, the others are raised."""


def attempt(action: Callable[[], T], *expected: type[LineageError]) -> T | Verdict:
    """Return what an action returns or, where it raises one of the expected errors, the verdict that says why."""
    try:
        return action()
    except expected as error:
        return Verdict(next(kind for known, kind in VERDICTS.items() if isinstance(error, known)), str(error))
