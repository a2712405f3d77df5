"""Ancestry: which bases the weights bear out, in which order bills of materials name them, and with what confidence."""

from __future__ import annotations

import uuid
from decimal import ROUND_DOWN, Decimal

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.report.words import wording

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/hf-lineage/hf-lineage")

DIGITS = Decimal("0.0001")


def ancestors(report: Report) -> list[Row]:
    """Return a row for each verified base, the nearest first and the one of which the model has least last.

    CycloneDX does not say in which order ancestors stand; who reads them (Trustify) takes the last as the upstream of
    all. So the base of a merge, from which its parents come as well, is the last.
    """
    verified: dict[str, Row] = {}
    for row in report.rows:
        if row.verdict.verified:
            verified.setdefault(row.claim.base, row)
    return sorted(verified.values(), key=_distance)


def confidence(row: Row) -> Decimal | None:
    """Return 1 - p: the level at which the test rejects that the two are independent; None where nothing was tested.

    It is what the evidence is worth, and neither how alike the two are nor how much of the base is in the model. It
    is rounded down, because no test is certain.
    """
    p_value = wording.p_value(row)
    return None if p_value is None else (1 - Decimal(f"{p_value:.6g}")).quantize(DIGITS, ROUND_DOWN).normalize()


def _distance(row: Row) -> tuple[bool, float, float]:
    best, share = wording.best(row), wording.inherited_share(row)
    is_base = row.parent is not None and row.parent.is_base
    return is_base, -(share or 0.0), -(best.comparison.score if best else 0.0)
