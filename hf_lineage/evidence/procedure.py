"""Procedure: what a user may choose of how two models are tested; without NumPy, for the command line names it."""

from __future__ import annotations

from typing import Literal, get_args

Budget = Literal["quick", "full"]
BUDGETS: tuple[Budget, ...] = get_args(Budget)
Admitted = Literal["any", "exact"]
ADMITTED: tuple[Admitted, ...] = get_args(Admitted)
ACCEPTABLE = ("part", "basis", "weak")
"""Kinds of RELATED that a user may accept."""
FAIL_ON: tuple[str, ...] = ("unrelated", "undeclared-parent", "undecided", "never")
"""What makes a check fail: UNRELATED or a damaged base; also a parent that the model does not name; also what is not
verified or accepted; or nothing."""
