"""A report as SARIF 2.1.0 (OASIS): a rule for each verdict, a result for each claim, at the line that makes it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hf_lineage import __version__
from hf_lineage.errors import printable
from hf_lineage.pipeline import Report, Row
from hf_lineage.report import wording
from hf_lineage.report.encoding import encode
from hf_lineage.report.json import kind
from hf_lineage.report.place import Place, places
from hf_lineage.verdict import ExitCode

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
HOMEPAGE = "https://github.com/hf-lineage/hf-lineage"


@dataclass(frozen=True)
class Rule:
    """What a verdict is to a viewer of results: its identifier, how grave, and in words."""

    identifier: str
    level: str
    title: str
    meaning: str


RULES = {
    "RELATED": Rule(
        "related",
        "none",
        "The model shares weights with the base it declares.",
        "The score of the two models is one that independent models practically never reach, and most of what the "
        "hidden units of the model write is inherited.",
    ),
    "UNRELATED": Rule(
        "unrelated",
        "error",
        "The weights do not bear out the declared base.",
        "Nothing in the weights tells the two models from independent ones. Declare the base that the model was really "
        "made from, or none if it was trained from fresh weights.",
    ),
    "INCONCLUSIVE": Rule(
        "inconclusive",
        "warning",
        "The weights do not decide whether the declared base is right.",
        "The two models were measured, but the numbers do not decide. The message says why.",
    ),
    "INCOMPATIBLE": Rule(
        "incompatible",
        "warning",
        "The declared base has another width.",
        "Models of different width are not compared. A narrowed or widened model is of this kind; so is a model whose "
        "card names the wrong size of its base.",
    ),
    "UNVERIFIABLE": Rule(
        "unverifiable",
        "note",
        "The declared base could not be checked.",
        "There is nothing to compare: no weights, a format that is not read, or a base that is not to be had.",
    ),
    "UNREADABLE": Rule(
        "unreadable",
        "error",
        "The files of the declared base are damaged.",
        "The base is there, but its files contradict themselves or end too early.",
    ),
    "RELATED in part": Rule(
        "related-in-part",
        "warning",
        "Only a part of the model comes from the base it declares.",
        "The two models are not independent, but no more than a part of what the hidden units of the model write is "
        "inherited. The message says how much, and in which layers.",
    ),
    "RELATED by the basis only": Rule(
        "related-by-basis",
        "warning",
        "The model shares an embedding or a start with the base it declares, and no layers.",
        "The two models are not independent, but the hidden units of the one are not those of the other: the layers "
        "were trained anew.",
    ),
    "RELATED, share not measured": Rule(
        "related-unmeasured",
        "warning",
        "The model shares weights with the base it declares, and how much is not known.",
        "A stored signature was made by a version that kept no hidden units. Extract it again, or read the weights.",
    ),
}
"""By the words of a verdict; new ones at the end, so that their numbers stay."""
NUMBERS = {words: number for number, words in enumerate(RULES)}


def render(report: Report, explain: bool = False) -> str:
    """Return the report as SARIF; `explain` adds nothing."""
    del explain
    return encode(document(report))


def alerts(report: Report) -> str:
    """Return the report without what passed, for GitHub's code scanning, to which every result is an alert."""
    log = document(report)
    for run in log["runs"]:
        run["results"] = [result for result in run["results"] if result["kind"] != "pass"]
    return encode(log)


def document(report: Report) -> dict[str, Any]:
    """Return the log as plain values."""
    driver = {
        "name": "hf-lineage",
        "version": __version__,
        "semanticVersion": __version__,
        "informationUri": HOMEPAGE,
        "rules": list(map(_rule, RULES.values())),
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": list(_notifications(report))}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(report, row, found) for row, found in zip(report.rows, places(report), strict=True)],
        "properties": {"model": printable(report.model, 200), "revision": report.revision},
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": f"lineage/{rule.identifier}",
        "name": f"Lineage{''.join(part.capitalize() for part in rule.identifier.split('-'))}",
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.meaning},
        "help": {"text": f"{rule.meaning} {wording.MEANING}"},
        "helpUri": f"{HOMEPAGE}#use",
        "defaultConfiguration": {"level": rule.level},
        "properties": {"tags": ["lineage", "provenance", "supply-chain"], "precision": "very-high"},
    }


def _result(report: Report, row: Row, found: Sequence[Place]) -> dict[str, Any]:
    verdict, best, rule = row.verdict, wording.best(row), RULES[row.verdict.words]
    passed = verdict.exit_code is ExitCode.RELATED
    first, *others = map(_location, found)
    numbers = {} if best is None else {"score": best.comparison.score, "pValue": best.p_value}
    if best is not None and best.inherited is not None:
        numbers["inherited"] = best.inherited.share
    said = {
        "verdict": verdict.name,
        "kind": kind(verdict),
        "verified": verdict.verified,
        "base": printable(row.claim.base, 200),
        "baseRevision": row.base_revision,
    }
    return {
        "ruleId": f"lineage/{rule.identifier}",
        "ruleIndex": NUMBERS[verdict.words],
        "kind": "pass" if passed else "fail",
        "level": "none" if passed else rule.level,
        "message": {"text": _message(f"{wording.outcome(row)}.")},
        "locations": [first],
        **({"relatedLocations": others} if others else {}),
        "partialFingerprints": {name: _fingerprint(report, row) for name in ("claim/v1", "primaryLocationLineHash")},
        "properties": said | {"relation": row.claim.relation, "sources": list(row.claim.sources)} | numbers,
    }


def _location(place: Place) -> dict[str, Any]:
    region = {} if place.line is None else {"region": {"startLine": place.line}}
    return {"physicalLocation": {"artifactLocation": {"uri": place.uri, "uriBaseId": "%SRCROOT%"}, **region}}


def _fingerprint(report: Report, row: Row) -> str:
    """What stays the same when the model, or the line that makes the claim, moves: who claims what."""
    claim = "\n".join((report.model.partition("@")[0], row.claim.base))
    return hashlib.sha256(claim.encode("utf-8", errors="surrogateescape")).hexdigest()[:32]


def _notifications(report: Report) -> Iterator[dict[str, Any]]:
    """What belongs to no claim: nothing is declared, or the files disagree."""
    said = [] if report.rows else [wording.NOTHING_DECLARED]
    said += [f"Conflicting claims: {printable(conflict)}" for conflict in report.conflicts]
    for sentence in said:
        yield {"level": "warning", "message": {"text": _message(sentence)}}


def _message(text: str) -> str:
    """Text in which no link begins (SARIF 2.1.0, 3.11.6) and no placeholder is filled in (3.11.5)."""
    plain = text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    return plain.replace("{", "{{").replace("}", "}}")
