"""A report as SARIF 2.1.0 (OASIS): claims stand in files of the checkout, at lines, known by a fingerprint."""

import contextlib
import hashlib
import os
from collections.abc import Sequence
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
from hf_lineage.report.verdicts import texts

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
HOMEPAGE = "https://github.com/hf-lineage/hf-lineage"
KEYS = {CARD: "base_model", ADAPTER_CONFIG: "base_model_name_or_path", CONFIG: ORIGIN}


Place = tuple[str, int | None]  # a file, as a relative reference, and the line in it from 1 on; None if not known


def render(report: Report, _explain: bool = False) -> str:
    """Return the report as SARIF; notifications are no results: missing or conflicting claims, further findings."""
    version = {"version": __version__, "semanticVersion": __version__, "informationUri": HOMEPAGE}
    driver = {"name": "hf-lineage", **version, "rules": [_rule(code) for code in Code]}
    warnings = [*([] if report.rows else [wording.NOTHING_DECLARED]), *wording.remarks(report)]
    levels = [*(("warning", one) for one in warnings), *(("note", one) for one in state_all(report))]
    notifications = [{"level": level, "message": {"text": _message(sentence)}} for level, sentence in levels]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notifications}],
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
    verdict, best, code = row.verdict, wording.best(row), row.verdict.code
    passed = row.verdict.exit_code is ExitCode.VERIFIED and not row.unmet
    locations = []
    for uri, line in found_at:
        region = {} if line is None else {"region": {"startLine": line}}
        at = {"artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"}, **region}
        locations.append({"physicalLocation": at})
    why = f"{row.waiver.reason} (accepted until {row.waiver.expires})" if row.waiver else ""
    score = None if best is None else best.comparison.score
    measured = {"pValue": wording.p_value(row), "score": score, "inherited": wording.inherited_share(row)}
    facts = {"verdict": verdict.word, "code": code, "verified": verdict.verified}
    facts |= {"base": printable(row.claim.base, 200), "baseCommit": row.base_commit}
    facts |= {"relation": row.claim.relation, "sources": list(row.claim.sources)}
    return {
        "ruleId": f"lineage/{code}",
        "ruleIndex": list(Code).index(code),
        "kind": "pass" if passed else "fail",
        "level": "none" if passed else texts()[code].level.replace("none", "warning"),
        "message": {"text": _message(f"{state_outcome(row)}.")},
        "locations": locations[:1],
        **({"relatedLocations": locations[1:]} if locations[1:] else {}),
        "partialFingerprints": {name: fingerprint(report, row) for name in ("claim/v1", "primaryLocationLineHash")},
        # The waiver is not in the file where the result is shown (SARIF 2.1.0, 3.35).
        **({"suppressions": [{"kind": "external", "status": "accepted", "justification": why}]} if why else {}),
        "properties": facts | {name: value for name, value in measured.items() if value is not None},
    }


def _message(text: str) -> str:
    """Return text in which no link begins (SARIF 2.1.0, 3.11.6) and no placeholder is filled in (3.11.5)."""
    plain = text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    return plain.replace("{", "{{").replace("}", "}}")


def places(report: Report) -> list[list[Place]]:
    """Return where each claim is made, or could be, in files as seen from the working directory around the model."""
    source, folder = report.source, Path()
    if source is not None and source.remote is None:
        with contextlib.suppress(ValueError):  # on another drive, or outside
            folder = source.folder.resolve().relative_to(Path.cwd().resolve())
    files = [(CARD,) if row.claim.sources == NAMED else row.claim.sources for row in report.rows]
    lines = {file: _lines(source, file) for file in {file for some in files for file in some}}
    return [
        [(quote(os.fsencode((folder / file).as_posix())), lines[file].get(row.claim.base)) for file in some]
        for row, some in zip(report.rows, files, strict=True)
    ]


def fingerprint(report: Report, row: ClaimResult) -> str:
    """Return what stays the same when the model, or the line that makes the claim, moves: who claims what."""
    words = "\n".join((report.model.partition("@")[0], row.claim.base, *filter(None, (row.part,))))
    return hashlib.sha256(words.encode("utf-8", errors="surrogateescape")).hexdigest()[:32]


def _lines(source: RepoRef | None, file: str) -> dict[str, int]:
    """Return each value in 256 KiB of a file and the first line where it stands, behind the key that declares."""
    lines: dict[str, int] = {}
    key = KEYS.get(file)
    with contextlib.suppress(LineageError, yaml.YAMLError, RecursionError, ValueError):
        for token in yaml.scan(source.read_head(file, 2**18) or "" if source else "", Loader=safe_yaml.FAST):
            if not isinstance(token, yaml.ScalarToken):
                continue
            if key is None:
                lines.setdefault(parse_name(token.value.strip().split("+", 1)[0]).base, token.start_mark.line + 1)
            elif token.value == key:
                key = None
    return lines
