"""The record beside a model card, `lineage/claims.json`: what was checked, at which commits, and what came out."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import msgspec

from hf_lineage.checking.api import Report
from hf_lineage.checking.rows import Row
from hf_lineage.errors import CardError, OptionError, printable
from hf_lineage.evidence.verdict import Kind
from hf_lineage.report import json
from hf_lineage.report.command import command
from hf_lineage.report.encoding import indented
from hf_lineage.report.merge_record import IN_SHARES, RecordedParent, recorded
from hf_lineage.report.public import renamed
from hf_lineage.signature.origin import Origin
from hf_lineage.signature.recipe import Recipe

FILE = "lineage/claims.json"
SCHEMA_VERSION = 2
"""Raised when a key changes its meaning or goes away; new keys may come at any time."""
FIGURES, OF_ERRORS = 4, 1
"""Significant figures of what is measured, and of its error: the last ones of a float differ between machines."""


class Tool(msgspec.Struct, frozen=True):
    """What made the record."""

    name: str
    version: str


class Settings(msgspec.Struct, frozen=True):
    """What the p-values depend on besides the recipe."""

    alpha: float
    permutations: int
    seed: int
    min_share: float = 0.5


class Null(msgspec.Struct, frozen=True):
    """The scores of independent models that a score was tested against as well."""

    threshold: float
    p_value: float | None
    source: str


class PathEvidence(msgspec.Struct, frozen=True):
    """What was measured along one path, under the keys of `--format json`."""

    verdict: str
    reason: str
    score: float
    standard_error: float | None
    p_value: float
    p_value_adjusted: float
    analyses: int
    layers_read: int
    empirical_null: Null | None
    inherited: float | None = None
    """The share of what the model's units write that is inherited, in whole per cent."""


class Origins(msgspec.Struct, frozen=True):
    """Where the numbers of base and model came from; the local cache counts as the weights."""

    base: Origin | None
    model: Origin | None


class RecordedClaim(msgspec.Struct, frozen=True):
    """One claim and what became of it."""

    base: str
    base_commit: str | None
    relation: str | None
    sources: tuple[str, ...]
    verified: bool
    """Whether the exact test says RELATED and more than half of what the model's units write is inherited."""
    verdict: str
    reason: str
    layers: int | None
    score: float | None
    p_value: float | None
    evidence: dict[str, PathEvidence]
    recipe: Recipe
    test: Settings
    date: datetime.date
    command: str
    signatures: Origins | None = None
    exit_code: int | None = None
    """What `check` returns for the claim."""
    kind: str | None = None
    """In which way the two are RELATED; null for any other verdict."""
    inherited: float | None = None
    """The share of what the model's units write that is inherited, along the path that decided."""
    parent: RecordedParent | None = None
    """What the base gave as a parent of a merge; null for any other claim."""

    @property
    def words(self) -> str:
        """The words that reports print for the verdict."""
        kind = Kind.of(self.kind, self.verdict)
        return kind.words if kind else self.verdict


class Record(msgspec.Struct, frozen=True):
    """All claims about one model at one commit; commits are null for folders."""

    schema_version: int
    tool: Tool
    model: str
    commit: str | None
    claims: tuple[RecordedClaim, ...]


class _Version(msgspec.Struct):
    schema_version: int


class _Earlier(msgspec.Struct):
    """A record of an earlier schema, of which only the tool is read: the record is written anew."""

    tool: Tool
    claims: tuple[dict[str, Any], ...]


def build(report: Report, commit: str | None, date: datetime.date, names: Mapping[str, str]) -> Record:
    """Return a report as a record of the day; `names` has what stands for names only this machine knows."""
    document = json.document(report)
    public = _public(document, names)
    public["claims"] = [
        claim
        | {
            "evidence": {path["path"]: _evidence(path) for path in claim["paths"]},
            "parent": claim["parent"] and recorded(claim["parent"]),
        }
        | {"signatures": {who: _origin(origin) for who, origin in claim["signatures"].items()}}
        | {"base_commit": row.base_revision, "test": document["test"], "date": date}
        | {"command": command(public["model"], commit, row, report.options, names), **_decisive(row, claim)}
        for row, claim in zip(report.rows, public["claims"], strict=True)
    ]
    return msgspec.convert(public | {"schema_version": SCHEMA_VERSION, "commit": commit}, Record)


def encode(record: Record) -> bytes:
    """Return a record as JSON."""
    return indented(record).encode()


def decode(content: bytes | None) -> Record | None:
    """Return what an earlier run recorded, None if there is nothing; CardError for a file of somebody else.

    What an earlier schema recorded is nothing: its words had another meaning.
    """
    if content is None:
        return None
    try:
        version = msgspec.json.decode(content, type=_Version).schema_version
        if version > SCHEMA_VERSION:
            raise CardError(f"{FILE} was written by a later hf-lineage; update hf-lineage")
        if version < SCHEMA_VERSION:
            msgspec.json.decode(content, type=_Earlier)
            return None
        return msgspec.json.decode(content, type=Record)
    except (msgspec.DecodeError, OptionError, RecursionError, ValueError) as error:
        raise CardError(f"{FILE} is not a file that hf-lineage wrote ({error}); move it away") from None


def _origin(origin: dict[str, Any] | None) -> dict[str, Any] | None:
    return origin | {"kind": "weights"} if origin and origin["kind"] == "cache" else origin


def _evidence(path: dict[str, Any]) -> dict[str, Any]:
    error = path["standard_error"]
    recorded = path | {"inherited": path["inherited"] and round(path["inherited"]["share"], IN_SHARES)}
    return recorded if error is None else recorded | {"standard_error": float(f"{error:.{OF_ERRORS}g}")}


def _decisive(row: Row, claim: Mapping[str, Any]) -> dict[str, float | None]:
    """Score, p-value and share of the path that decided."""
    if row.verdict.framed and row.verdict.by_units:
        units = claim["units"]
        share = round(units["inherited"]["share"], IN_SHARES)
        return {"score": None, "p_value": units["p_value_adjusted"], "inherited": share}
    decided = row.verdict.decisive
    path = next((path for path in claim["paths"] if path["path"] == decided), None)
    if path is None:
        return {"score": None, "p_value": claim["adapter"] and claim["adapter"]["p_value"], "inherited": None}
    inherited = path["inherited"] and round(path["inherited"]["share"], IN_SHARES)
    return {"score": path["score"], "p_value": path["p_value_adjusted"], "inherited": inherited}


def _public(value: Any, names: Mapping[str, str]) -> Any:
    """Plain values with every text on one line and escaped, and figures rounded to the digits that are significant."""
    if isinstance(value, Mapping):
        return {key: _public(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_public(item, names) for item in value]
    if isinstance(value, str):
        return printable(renamed(value, names), 500)
    return float(f"{value:.{FIGURES}g}") if isinstance(value, float) else value
