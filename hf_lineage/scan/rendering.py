"""A scan as a table of at most 80 columns with sentences under it, or as JSON. Names and metadata are untrusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hf_lineage import __version__
from hf_lineage.errors import printable
from hf_lineage.report.formats import kind
from hf_lineage.report.formats import text as txt
from hf_lineage.report.words import indented, wording
from hf_lineage.scan.run import Entry, Scan

SCHEMA_VERSION = 1
COLUMNS = ("Model", "Where", "Size", "Declared base", "Format")
NONE, UNREAD, VERDICT = "\N{EN DASH}", "not read", "Verdict"
LONGEST = 200
"""Characters of a name."""
TITLES = "A name in parentheses is what a file calls itself; it declares no base by it."
EMPTY = "No models were found. Name folders to search, such as `hf-lineage scan ./models`."
BY_NAMES = (
    "The same files: {}. Their names, by which a store calls them after their content, or their places are the same; "
    "their bytes were not read, --digest reads them."
)
BY_BYTES = "The same numbers: {}. Every tensor has the same bytes; names and metadata of files may differ."


def text(scan: Scan) -> str:
    """Return a scan as a table and sentences."""
    rows = [row for entry in scan.entries for row in _rows(entry)]
    judged = any(len(row) > len(COLUMNS) for row in rows)
    cells = [(*row, "") if judged and len(row) == len(COLUMNS) else row for row in rows]
    columns = (*COLUMNS, VERDICT) if judged else COLUMNS
    table = txt.table(columns, map(txt.folded, cells), numeric=(2,), whole=(2,)) if rows else ""
    return "\n".join(filter(None, (table, *map(txt.wrapped, _sentences(scan))))) + "\n"


def json(scan: Scan) -> str:
    """Return a scan as JSON."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "hf-lineage", "version": __version__},
        "exit_code": int(scan.exit_code),
        "models": [_values(entry) for entry in scan.entries],
        "same": {
            "by": "bytes" if scan.by_bytes else "names",
            "groups": [list(map(_shown, one)) for one in scan.groups],
        },
        "notes": [printable(note) for note in scan.notes],
    }
    return indented(document)


FORMATS: dict[str, Callable[[Scan], str]] = {"text": text, "json": json}


def _rows(entry: Entry) -> Iterator[tuple[str, ...]]:
    """A row for each claim that was judged, else one for the model."""
    model = entry.model
    start = (_shown(model.name), _shown(model.where), _size(model.size) if model.files else NONE)
    if entry.report is None:
        declared = ", ".join(_shown(claim.base) for claim in model.claims) or (
            f"({model.title})" if model.title else NONE
        )
        failed = (UNREAD.upper(),) if entry.failure else ()
        yield (*start, UNREAD if model.problem else declared, model.form or NONE, *failed)
        return
    for row in entry.report.rows:
        yield (*start, _shown(row.claim.base), model.form, row.verdict.words)


def _sentences(scan: Scan) -> Iterator[str]:
    for entry in scan.entries:
        name = _shown(entry.model.name)
        if entry.problem:
            yield _about(name, entry.problem)
        if entry.digest and entry.digest.unread:
            yield _about(name, entry.digest.unread)
        for row in entry.report.rows if entry.report else ():
            if row.verdict.reason:
                yield f"{name}, {wording.reason(row)}"
    for names in scan.groups:
        yield (BY_BYTES if scan.by_bytes else BY_NAMES).format(", ".join(map(_shown, names)))
    if any(entry.model.title and not entry.model.claims for entry in scan.entries):
        yield TITLES
    yield f"Models: {len(scan.entries)}." if scan.entries else EMPTY


def _values(entry: Entry) -> dict[str, Any]:
    model, digest = entry.model, entry.digest
    return {
        "name": _shown(model.name),
        "where": _shown(model.where),
        "format": model.form or None,
        "bytes": model.size,
        "files": [_shown(file) for file in model.files],
        "title": model.title or None,
        "declares": [_shown(claim.base) for claim in model.claims],
        "tensors_sha256": digest.sha256 or None if digest else None,
        "unread": printable(digest.unread) or None if digest else None,
        "problem": printable(entry.problem) or None,
        "claims": [
            {
                "base": _shown(row.claim.base),
                "verdict": row.verdict.name,
                "kind": kind(row.verdict),
                "verified": row.verdict.verified,
                "exit_code": int(row.verdict.exit_code),
                "reason": printable(row.verdict.reason),
            }
            for row in (entry.report.rows if entry.report else ())
        ],
    }


def _about(name: str, why: str) -> str:
    return printable(why if why.startswith(name) else f"{name}: {why}", 500)


def _shown(name: object) -> str:
    return printable(name, LONGEST)


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
