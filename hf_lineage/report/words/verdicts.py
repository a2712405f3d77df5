"""Verdicts: texts of every code, and other sentences, read from the YAML files of `report`."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.evidence import Code, Verdict
from hf_lineage.files import plain_yaml
from hf_lineage.report.words.wording import whole

FOLDER = Path(__file__).parents[1]
CODES = tuple(Code)
"""Order of the rules in SARIF; a new code comes at the end of its word."""


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sentences in place of those of a code where the reason matches a pattern, whose groups stand in the advice."""

    pattern: str
    next: tuple[str, ...]
    headline: str = ""
    title: str = ""
    meaning: str = ""


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
    cases: tuple[Case, ...] = ()


@functools.cache
def texts() -> Mapping[Code, Texts]:
    """Return the texts of every code; a code without texts is an error of the package."""
    content = msgspec.convert(_content("verdicts.yaml"), dict[str, Texts])
    return {code: content[code] for code in Code}


@functools.cache
def sentences(group: str) -> Mapping[str, str]:
    """Return the sentences of a group of `sentences.yaml`, by their names."""
    return msgspec.convert(_content("sentences.yaml"), dict[str, dict[str, str]])[group]


def _content(file: str) -> Any:
    return plain_yaml.load((FOLDER / file).read_text(encoding="utf-8"))


def texts_of(verdict: Verdict) -> Texts:
    """Return the texts of the code of a verdict, with the sentences of the first case that its reason matches."""
    text = texts()[verdict.code]
    for case in text.cases:
        if found := re.search(case.pattern, verdict.reason):
            own = {name: getattr(case, name) or getattr(text, name) for name in ("headline", "title", "meaning")}
            return msgspec.structs.replace(text, next=tuple(one.format(*found.groups()) for one in case.next), **own)
    return text


def advise(report: Report, row: Row) -> tuple[str, ...]:
    """Return what to do about a claim, the most important sentence first; of one that fails all the same, on what."""
    advice, unmet, verified = texts_of(row.verdict).next, tuple(map(whole, row.unmet)), row.verdict.verified
    if unmet:
        return ("Do what the policy asks, or change the policy.", *unmet, *advice[1:]) if verified else advice + unmet
    if verified and report.counted:
        return ("Declare the other parent in the card, or ask the publisher about it.", *advice[1:])
    return advice
