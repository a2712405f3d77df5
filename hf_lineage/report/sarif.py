"""A report as SARIF 2.1.0 (OASIS).

Claims stand in files of the checkout, at lines, and a viewer knows them again by a fingerprint.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from hf_lineage import __version__
from hf_lineage.checking.report import Report
from hf_lineage.checking.result import NAMED, ClaimResult
from hf_lineage.claims.names import parse_name
from hf_lineage.claims.sources import CARD, CONFIG, ORIGIN
from hf_lineage.errors import LineageError, printable
from hf_lineage.evidence.verdict import Code, ExitCode
from hf_lineage.files import safe_yaml
from hf_lineage.hub.repo import ADAPTER_CONFIG, RepoRef
from hf_lineage.report import wording
from hf_lineage.report.findings import state_all, state_outcome
from hf_lineage.report.json import encode
from hf_lineage.report.verdicts import CODES, texts

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
HOMEPAGE = "https://github.com/hf-lineage/hf-lineage"


KEYS = {CARD: "base_model", ADAPTER_CONFIG: "base_model_name_or_path", CONFIG: ORIGIN}
"""Keys that stand before the base; a merge names its models in many places."""
LOOKED_AT = 2**18
"""Bytes of a file in which a line is looked for: PyYAML's own scanner takes seconds for them."""


@dataclass(frozen=True)
class Place:
    """A file, as a relative reference, and the line in it, counted from 1; None if it is not known."""

    uri: str
    line: int | None


def render(report: Report, _explain: bool = False) -> str:
    """Return the report as SARIF; `explain` adds nothing."""
    driver = {
        "name": "hf-lineage",
        "version": __version__,
        "semanticVersion": __version__,
        "informationUri": HOMEPAGE,
        "rules": [_rule(code) for code in CODES],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": list(_notifications(report))}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(report, row, found_at) for row, found_at in zip(report.rows, places(report), strict=True)],
        "properties": {"model": printable(report.model, 200), "commit": report.commit},
    }
    return encode({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(code: Code) -> dict[str, Any]:
    text = texts()[code]
    return {
        "id": f"lineage/{code}",
        "name": f"Lineage{''.join(part.capitalize() for part in code.split('-'))}",
        "shortDescription": {"text": text.title},
        "fullDescription": {"text": text.meaning},
        "help": {"text": f"{text.meaning} {' '.join(text.next)} {wording.MEANING}"},
        "helpUri": f"{HOMEPAGE}#use",
        "defaultConfiguration": {"level": text.level},
        "properties": {"tags": ["lineage", "provenance", "supply-chain"], "precision": "very-high"},
    }


def _result(report: Report, row: ClaimResult, found_at: Sequence[Place]) -> dict[str, Any]:
    verdict, best, p_value, code = row.verdict, wording.best(row), wording.p_value(row), row.verdict.code
    passed = row.verdict.exit_code is ExitCode.VERIFIED and not row.unmet
    level = texts()[code].level.replace("none", "warning")
    first, *others = map(_location, found_at)
    why = f"{row.waiver.reason} (accepted until {row.waiver.expires})" if row.waiver else ""
    score = None if best is None else best.comparison.score
    measured = {"pValue": p_value, "score": score, "inherited": wording.inherited_share(row)}
    numbers = {name: value for name, value in measured.items() if value is not None}
    facts = {
        "verdict": verdict.word,
        "code": code,
        "verified": verdict.verified,
        "base": printable(row.claim.base, 200),
        "baseCommit": row.base_commit,
    }
    return {
        "ruleId": f"lineage/{code}",
        "ruleIndex": CODES.index(code),
        "kind": "pass" if passed else "fail",
        "level": "none" if passed else level,
        "message": {"text": _message(f"{state_outcome(row)}.")},
        "locations": [first],
        **({"relatedLocations": others} if others else {}),
        "partialFingerprints": {name: fingerprint(report, row) for name in ("claim/v1", "primaryLocationLineHash")},
        # The waiver is not in the file where the result is shown (SARIF 2.1.0, 3.35).
        **({"suppressions": [{"kind": "external", "status": "accepted", "justification": why}]} if why else {}),
        "properties": facts | {"relation": row.claim.relation, "sources": list(row.claim.sources)} | numbers,
    }


def _location(place: Place) -> dict[str, Any]:
    region = {} if place.line is None else {"region": {"startLine": place.line}}
    return {"physicalLocation": {"artifactLocation": {"uri": place.uri, "uriBaseId": "%SRCROOT%"}, **region}}


def _notifications(report: Report) -> Iterator[dict[str, Any]]:
    """Yield notifications, which are not results: on claims that are missing or disagree, and on further findings."""
    sentences = [] if report.rows else [wording.NOTHING_DECLARED]
    sentences += wording.remarks(report)
    for sentence in sentences:
        yield {"level": "warning", "message": {"text": _message(sentence)}}
    for sentence in state_all(report):
        yield {"level": "note", "message": {"text": _message(sentence)}}


def _message(text: str) -> str:
    """Return text in which no link begins (SARIF 2.1.0, 3.11.6) and no placeholder is filled in (3.11.5)."""
    plain = text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    return plain.replace("{", "{{").replace("}", "}}")


def places(report: Report) -> list[list[Place]]:
    """Return for each row where the claim is made; for a base that the user named, where it could be declared."""
    files = [(CARD,) if row.claim.sources == NAMED else row.claim.sources for row in report.rows]
    lines = {file: _lines(report.source, file) for file in {file for some in files for file in some}}
    return [
        [Place(_uri(report.source, file), lines[file].get(row.claim.base)) for file in some]
        for row, some in zip(report.rows, files, strict=True)
    ]


def fingerprint(report: Report, row: ClaimResult) -> str:
    """Return what stays the same when the model, or the line that makes the claim, moves: who claims what."""
    words = "\n".join((report.model.partition("@")[0], row.claim.base, *filter(None, (row.part,))))
    return hashlib.sha256(words.encode("utf-8", errors="surrogateescape")).hexdigest()[:32]


def _uri(source: RepoRef | None, file: str) -> str:
    """Return the file as seen from the working directory where it is inside, which is what a viewer has checked out."""
    folder = Path()
    if source is not None and source.remote is None:
        with contextlib.suppress(ValueError):  # on another drive, or outside
            folder = source.folder.resolve().relative_to(Path.cwd().resolve())
    return quote(os.fsencode((folder / file).as_posix()))


def _lines(source: RepoRef | None, file: str) -> dict[str, int]:
    """Return each value of a file and the first line where it stands, behind the key that declares; JSON is YAML."""
    lines: dict[str, int] = {}
    key = KEYS.get(file)
    with contextlib.suppress(LineageError, yaml.YAMLError, RecursionError, ValueError):
        for token in yaml.scan(source.read_head(file, LOOKED_AT) or "" if source else "", Loader=safe_yaml.FAST):
            if not isinstance(token, yaml.ScalarToken):
                continue
            if key is None:
                lines.setdefault(parse_name(token.value.strip().split("+", 1)[0]).base, token.start_mark.line + 1)
            elif token.value == key:
                key = None
    return lines
