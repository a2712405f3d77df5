"""Failures: the errors that do not end a check, and the verdicts that replace them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hf_lineage.errors import CheckpointError, LineageError, NothingToCompare, RepositoryError
from hf_lineage.evidence import Unreadable, Unverifiable, Verdict

T = TypeVar("T")

VERDICTS: dict[type[LineageError], type[Verdict]] = {
    NothingToCompare: Unverifiable,
    RepositoryError: Unverifiable,
    CheckpointError: Unreadable,
}
"""The verdict for each error of a base; of the candidate only the first becomes a verdict, the others are raised."""


def attempt(action: Callable[[], T], *expected: type[LineageError]) -> T | Verdict:
    """Return what an action returns or, where it raises one of the expected errors, the verdict that says why."""
    try:
        return action()
    except expected as error:
        verdict = next(verdict for kind, verdict in VERDICTS.items() if isinstance(error, kind))
        return verdict(str(error))
