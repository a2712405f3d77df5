"""A report as SARIF 2.1.0 (OASIS), and the outputs of the GitHub Action."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hf_lineage import __version__
from hf_lineage.checking.report import Report
from hf_lineage.checking.result import Row
from hf_lineage.errors import printable
from hf_lineage.evidence.verdict import Code, Word
from hf_lineage.report import wording
from hf_lineage.report.findings import state_all, state_first, state_outcome
from hf_lineage.report.materials import Place, encode, fingerprint, holds, places
from hf_lineage.report.text import render_markdown
from hf_lineage.report.verdicts import CODES, texts

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
HOMEPAGE = "https://github.com/hf-lineage/hf-lineage"


def render(report: Report, _explain: bool = False) -> str:
    """Return the report as SARIF; `explain` adds nothing."""
    return encode(document(report))


def document(report: Report) -> dict[str, Any]:
    """Return the log as plain values."""
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
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


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


def _result(report: Report, row: Row, found_at: Sequence[Place]) -> dict[str, Any]:
    verdict, best, p_value, code = row.verdict, wording.best(row), wording.p_value(row), row.verdict.code
    passed = holds(row)
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


def render_github(report: Report, _explain: bool = False) -> str:
    """Return the values as a JSON object; `explain` adds nothing, because a summary is short."""
    told = (*state_first(report), *map(state_outcome, report.rows))
    message = "; ".join(told) or wording.NOTHING_DECLARED
    return encode(
        {
            "exit_code": int(report.exit_code),
            "unaccepted": int(report.unaccepted),
            "unmet": report.unmet,
            "undeclared_parent": report.counted,
            "fail_on": report.policy and report.policy.fail_on,
            "title": f"Lineage of {printable(report.model, 200)}",
            "message": printable(message),
            "summary": render_markdown(report),
            "outputs": _outputs(report),
        }
    )


def _outputs(report: Report) -> dict[str, str]:
    """Return the outputs of the claim that decides: the first of the worst."""
    row = report.worst
    best = None if row is None else wording.best(row)
    p_value = None if row is None else wording.p_value(row)
    return {
        "verdict": str(report.code.word),
        "code": report.code,
        "verified": "true" if report.code.word is Word.VERIFIED else "false",
        "score": "" if best is None else f"{best.comparison.score:.4g}",
        "p-value": "" if p_value is None else f"{p_value:.4g}",
    }
