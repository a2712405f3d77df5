"""Digests: the SHA-256 of the files that hold the weights, which pin a folder as its commit pins a model on the Hub.

Files are read as a whole for them, of a model and of a base, so only formats that are kept as records ask for them.
"""

from __future__ import annotations

from dataclasses import replace

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.checkpoint import weight_files
from hf_lineage.errors import NothingToCompare, printable
from hf_lineage.hub import RepoRef


def digests(repo: RepoRef | None) -> dict[str, str]:
    """Return each file that holds weights with its SHA-256, none where there are none."""
    if repo is None:
        return {}
    try:
        return {printable(file, 200): repo.sha256(file) for file in sorted(weight_files(repo))}
    except NothingToCompare:
        return {}


def pinned(report: Report) -> Report:
    """Return a report in which the origin of every base that is a folder names its files and their digests."""
    return replace(report, rows=tuple(map(_pinned, report.rows)))


def _pinned(row: Row) -> Row:
    origin = row.base_origin and replace(row.base_origin, files=digests(row.base_folder))
    return replace(row, base_origin=origin) if row.base_folder else row
