"""Common parts of bills of materials and other records that are kept: the verified bases, and digests of files."""

from __future__ import annotations

import uuid
from dataclasses import replace
from decimal import ROUND_DOWN, Decimal

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.checkpoint import weight_files
from hf_lineage.errors import NothingToCompare, printable
from hf_lineage.hub import RepoRef
from hf_lineage.report.words import wording

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/hf-lineage/hf-lineage")

RECORD = "lineage/claims.json"
"""The JSON report beside a model card."""
DIGITS = Decimal("0.0001")


def title(report: Report) -> str:
    """Return what a model is called that may be none of the Hub: its folder."""
    return report.source.folder.resolve().name if report.source and not report.source.remote else report.model


def ancestors(report: Report, part: str = "") -> list[Row]:
    """Return a row for each verified base, the nearest first and the one of which the model has least last.

    What comes from elsewhere in a part of a model is told of that part, and not of the model.
    CycloneDX does not say in which order ancestors stand; who reads them (Trustify) takes the last as the upstream of
    all. So the base of a merge, from which its parents come as well, is the last.
    """
    verified: dict[str, Row] = {}
    apart = report.parts
    for row in report.rows:
        if row.verdict.verified and (row.part == part or not apart):
            verified.setdefault(row.claim.base, row)
    return sorted(verified.values(), key=_distance)


def confidence(row: Row) -> Decimal | None:
    """Return 1 - p: the level at which the test rejects that the two are independent; None where nothing was tested.

    It is what the evidence is worth, and neither how alike the two are nor how much of the base is in the model. It
    is rounded down, because no test is certain.
    """
    p_value = wording.p_value(row)
    return None if p_value is None else (1 - Decimal(f"{p_value:.6g}")).quantize(DIGITS, ROUND_DOWN).normalize()


def digests(repo: RepoRef | None) -> dict[str, str]:
    """Return each file that holds weights with its SHA-256, none where there are none.

    They pin a folder as its commit pins a model on the Hub. Files are read as a whole for them.
    """
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


def _distance(row: Row) -> tuple[bool, float, float]:
    best, share = wording.best(row), wording.inherited_share(row)
    is_base = row.parent is not None and row.parent.is_base
    return is_base, -(share or 0.0), -(best.comparison.score if best else 0.0)
