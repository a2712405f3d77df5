"""Verdicts: texts of every code, read from `report/verdicts.yaml`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.evidence import Code
from hf_lineage.files import plain_yaml
from hf_lineage.report.words.wording import whole

FILE = Path(__file__).parents[1] / "verdicts.yaml"
CODES = tuple(Code)
"""Order of the rules in SARIF; a new code comes at the end of its word."""


class Texts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Texts of one code."""

    tone: str
    level: str
    headline: str
    """Continued by the name of the base."""
    title: str
    meaning: str
    next: tuple[str, ...]
    """Advice, the most important sentence first."""


@functools.cache
def texts() -> Mapping[Code, Texts]:
    """Return the texts of every code; a code without texts is an error of the package."""
    content = msgspec.convert(plain_yaml.load(FILE.read_text(encoding="utf-8")), dict[str, Texts])
    return {code: content[code] for code in Code}


def advise(report: Report, row: Row) -> tuple[str, ...]:
    """Return what to do about a claim, the most important sentence first; of one that fails all the same, on what."""
    advice, unmet, verified = texts()[row.verdict.code].next, tuple(map(whole, row.unmet)), row.verdict.verified
    if unmet:
        return ("Do what the policy asks, or change the policy.", *unmet, *advice[1:]) if verified else advice + unmet
    if verified and report.counted:
        return ("Declare the other parent in the card, or ask the publisher about it.", *advice[1:])
    return advice
