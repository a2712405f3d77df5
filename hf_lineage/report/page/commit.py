"""The commit of a model on a page: with its address where it is on the Hub, else with the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.hub import addresses, hub_name

FOLDER, STORED, UNREAD = "read from a folder", "given as a stored signature", "nothing of it was read"


@dataclass(frozen=True)
class Commit:
    """One commit, or why there is none."""

    name: str | None
    address: str | None = None
    """Where its files are on the Hub; None for a model that is not there."""
    reason: str = ""
    """Why it has no name."""


def commit_of_model(report: Report) -> Commit:
    """Return the commit of the model that was checked."""
    remote = report.source.remote if report.source else None
    address = addresses.files_at(remote, report.commit) if report.commit else None
    return Commit(report.commit, address, STORED if report.source is None else FOLDER)


def commit_of_base(row: Row) -> Commit:
    """Return the commit of the base; one that a stored signature names is not linked, nobody fetched it."""
    stored = row.base_origin is not None and row.base_origin.kind == "file"
    name = None if stored else hub_name(row.claim.base)
    address = addresses.files_at(name, row.base_commit) if row.base_commit else None
    return Commit(row.base_commit, address, STORED if stored else FOLDER if row.base_origin else UNREAD)
