"""The columns of the table of claims."""

from __future__ import annotations

from hf_lineage.checking import Report
from hf_lineage.checking.results import NAMED

COLUMNS = ("Declared base", "Relation", "Path", "Score", "Inherited", "p", "Verdict")
NAMED_BASE = "Base"
"""The first column where no base is declared, but each was named by the user."""
NUMERIC = (3, 4, 5)
"""The columns of figures."""
WHOLE = (2,)
"""The columns whose words are never broken over two lines: the paths."""


def columns(report: Report) -> tuple[str, ...]:
    """Return the head of the table of claims."""
    named = bool(report.rows) and all(row.claim.sources == NAMED for row in report.rows)
    return (NAMED_BASE, *COLUMNS[1:]) if named else COLUMNS
