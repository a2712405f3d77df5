"""What the record of a model told before, held against the verdict of today.

Anybody may have written the record: it is quoted, never trusted, and changes no verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import LineageError, printable
from hf_lineage.evidence import Kind
from hf_lineage.report.record import Earlier, Told, earlier_record, record

MEANT = {1: "RELATED took the exact test alone, whatever was inherited"}
"""By the version of a record's schema, what its verdicts meant then and do not mean now."""


def with_changes(report: Report) -> Report:
    """Return a report with a note for each claim whose verdict the model's own record tells otherwise."""
    earlier = _recorded(report)
    if earlier is None:
        return report
    told = {claim.base: claim for claim in earlier.claims if _once(claim.base, [one.base for one in earlier.claims])}
    bases = [row.claim.base for row in report.rows]
    rows = [row for row in report.rows if row.claim.base in told and _once(row.claim.base, bases)]
    notes = [note for row in rows for note in _changed(row, told[row.claim.base], earlier)]
    return replace(report, notes=(*report.notes, *notes))


def _once(name: str, names: Sequence[str]) -> bool:
    return names.count(name) == 1


def _recorded(report: Report) -> Earlier | None:
    """The record in the repository of a model; None where there is none, or none that can be read."""
    source = report.source
    if source is None:
        return None
    root = replace(source, subfolder="")
    try:
        root.fetch(record.FILE)
        content = root.read_bytes(record.FILE)
        return None if content is None else earlier_record.read(content)
    except (LineageError, msgspec.DecodeError, RecursionError, ValueError):
        return None


def _changed(row: Row, told: Told, earlier: Earlier) -> Iterator[str]:
    kind, now = Kind.of(told.kind, told.verdict), row.verdict.words
    if kind is None or kind.words == now:
        return
    reason = told.reason or MEANT.get(earlier.schema_version, "")
    because = f", because {printable(reason, 200)}" if reason else ""
    version = printable(earlier.tool.version, 40)
    yield (
        f"{printable(row.claim.base, 200)}: as {record.FILE} of the model has it, under hf-lineage {version} this was "
        f"{kind.words}{because}; now it is {now}"
    )
