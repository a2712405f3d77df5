"""Bases behind a base, and parents that nobody declared, in words: their licences, and what these ask of the model."""

from __future__ import annotations

from collections.abc import Iterator

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.claims import Ancestor
from hf_lineage.errors import printable
from hf_lineage.report.findings.finding import Finding
from hf_lineage.report.findings.notes import ADVICE, UNSTATED, describe_files, licence_values
from hf_lineage.report.words import wording


def describe(_report: Report, row: Row) -> Finding | None:
    """Return what is known of the licences of all ancestors in words, but of the base itself for machines alone."""
    values = [
        {
            "model": one.name,
            "declared_by": one.declared_by or None,
            "verdict": one.verdict or None,
            "license": licence_values(one.licence),
            "missing_files": list(one.missing),
            "problem": one.problem,
        }
        for one in row.ancestors
    ]
    return Finding("Licences of other ancestors", wording.about(row), tuple(_sentences(row)), values=values)


def _sentences(row: Row) -> Iterator[str]:
    """Each of the others in a sentence, where weights bear out the base."""
    if not row.verdict.verified:
        return
    for one in row.ancestors[1:]:
        yield f"{_declared(one)}; {_stated(one)}{ADVICE}"


def _declared(one: Ancestor) -> str:
    name = printable(one.name, 200)
    if not one.declared_by:
        return f"no file of the model declares {name}, which shows as a parent"
    compared = f"the model is {one.verdict} to it" if one.verdict else "nobody compared its weights"
    return f"{printable(one.declared_by, 200)} declares the base {name} ({compared})"


def _stated(one: Ancestor) -> str:
    if one.problem:
        return f"no licence of it was read: {printable(one.problem, 300)}"
    return "; ".join((f"licence as its card states it: {one.licence or UNSTATED}", *describe_files(one)))
