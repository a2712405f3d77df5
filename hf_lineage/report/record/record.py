"""The record beside a model card, `lineage/claims.json`: what was checked, at which commits, and what came out."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from hf_lineage.checking import Report
from hf_lineage.checking.results import Row
from hf_lineage.errors import CardError, OptionError, printable
from hf_lineage.report import findings as report_findings
from hf_lineage.report.formats import json
from hf_lineage.report.words import Write, command, indented, renamed, written
from hf_lineage.signature import Recipe
from hf_lineage.signature.sources import Origin

FILE = "lineage/claims.json"
SCHEMA_VERSION = 4
"""Raised when a key changes its meaning or goes away; new keys may come at any time."""
HERE, IN_WORDS = ".", "this repository"
"""The model of a record in a folder, whose name there says nothing: as a path, and in a sentence."""
FIGURES, OF_ERRORS = 4, 1
"""Significant figures of what is measured, and of its error: the last ones of a float differ between machines."""


class Tool(msgspec.Struct, frozen=True):
    """Program that made the record."""

    name: str
    version: str


class Settings(msgspec.Struct, frozen=True):
    """Settings on which the p-values depend besides the recipe."""

    alpha: float
    permutations: int
    seed: int
    min_share: float = 0.5


class Null(msgspec.Struct, frozen=True):
    """The scores of independent models that a score was tested against as well."""

    threshold: float
    p_value: float | None
    source: str


class Inherited(msgspec.Struct, frozen=True):
    """The share of what the model's units write that is inherited, in whole per cent."""

    share: float


class PathEvidence(msgspec.Struct, frozen=True):
    """Measurements along one path, under the keys of `--format json`."""

    path: str
    verdict: str
    reason: str
    score: float
    standard_error: float | None
    p_value: float
    p_value_adjusted: float
    analyses: int
    layers_read: int
    empirical_null: Null | None
    inherited: Inherited | None = None


class Origins(msgspec.Struct, frozen=True):
    """Sources of the numbers of base and model; the local cache counts as the weights."""

    base: Origin | None
    model: Origin | None


class RecordedTable(msgspec.Struct, frozen=True):
    """A table of a finding."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class RecordedFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding: in words, as tables, and as a picture and values of any form."""

    title: str
    sentences: tuple[str, ...]
    tables: tuple[RecordedTable, ...] = ()
    picture: Any = None
    values: Any = None


class RecordedClaim(msgspec.Struct, frozen=True):
    """One claim and what became of it."""

    base: str
    base_commit: str | None
    relation: str | None
    sources: tuple[str, ...]
    verified: bool
    verdict: str
    code: str
    reason: str
    layers: int | None
    score: float | None
    p_value_adjusted: float | None
    """The p-value of the path that decided, after all corrections."""
    paths: tuple[PathEvidence, ...]
    recipe: Recipe
    test: Settings
    date: datetime.date
    command: str
    signatures: Origins | None = None
    exit_code: int | None = None
    """Exit code of `check` for the claim."""
    inherited: Inherited | None = None
    """Along the path that decided."""
    parent: report_findings.RecordedParent | None = None
    """Contribution of the base as a parent of a merge; null for any other claim."""
    part: str = ""
    """The folder or file of the repository that it is about; empty for the repository itself."""
    executed: report_findings.RecordedRun | None = None  # null, as `strict` is, where nobody asked for it
    strict: report_findings.RecordedStrict | None = None
    findings: dict[str, RecordedFinding] = {}
    """Further findings, which have no key of their own, by name."""

    @property
    def evidence(self) -> dict[str, PathEvidence]:
        """Measurements by path."""
        return {path.path: path for path in self.paths}

    @property
    def label(self) -> str:
        """Word and code as reports print them."""
        return self.verdict if self.code == self.verdict.lower() else f"{self.verdict} {self.code}"


class Record(msgspec.Struct, frozen=True):
    """All claims about one model at one commit; commits are null for folders."""

    schema_version: Literal[4]
    tool: Tool
    model: str
    commit: str | None
    claims: tuple[RecordedClaim, ...]
    findings: dict[str, RecordedFinding] = {}
    """The findings about all claims, by name."""


def build(report: Report, commit: str | None, date: datetime.date, names: Mapping[str, str]) -> Record:
    """Return a report as a record of the day; `names` has what stands for names only this machine knows."""
    document = json.document(report)
    here = names.get(report.model) == HERE
    others = {name: shown for name, shown in names.items() if name.strip("./")}
    first = {maker.name: finding for maker, finding in report_findings.describe_report(report) if finding.first}
    document["findings"] |= {name: {"title": one.title, "sentences": one.sentences} for name, one in first.items()}
    public = _public(document, {**others, report.model: IN_WORDS} if report.model in others and here else others)
    public["model"] = HERE if here else public["model"]
    public["claims"] = [
        claim
        | {"paths": [_evidence(path) for path in claim["paths"]], "inherited": _hundredths(claim["inherited"])}
        | _rounded(report, row, claim)
        | {"signatures": {who: _origin(origin) for who, origin in claim["signatures"].items()}}
        | {"test": document["test"], "date": date}
        | {"command": command(report.model, commit, row, report.options, _beside(report, names))}
        for row, claim in zip(report.rows, public["claims"], strict=True)
    ]
    return msgspec.convert(public | {"schema_version": SCHEMA_VERSION, "commit": commit}, Record)


def _beside(report: Report, names: Mapping[str, str]) -> Write:
    """Return how names are written in the folder of the card; a card on the Hub is beside nothing of this machine."""
    folder = report.source.folder if report.source and report.source.remote is None else None
    model = {} if names.get(report.model) == HERE else {report.model: names.get(report.model, report.model)}
    return lambda name: model.get(name) or written(name, folder)


class _Version(msgspec.Struct):
    schema_version: int


def encode(record: Record) -> bytes:
    """Return a record as JSON."""
    return indented(record).encode()


def decode(content: bytes | None) -> Record | None:
    """Return the record of an earlier run, None where there is none of this version; CardError for another file."""
    if content is None:
        return None
    try:
        version = msgspec.json.decode(content, type=_Version).schema_version
        if version > SCHEMA_VERSION:
            raise CardError(f"{FILE} was written by a later hf-lineage; update hf-lineage")
        if version < SCHEMA_VERSION:
            return None
        return msgspec.json.decode(content, type=Record)
    except (msgspec.DecodeError, OptionError, RecursionError, ValueError) as error:
        raise CardError(f"{FILE} is not a file that hf-lineage wrote ({error}); move it away") from None


def _origin(origin: dict[str, Any] | None) -> dict[str, Any] | None:
    return origin | {"kind": "weights"} if origin and origin["kind"] == "cache" else origin


def _evidence(path: dict[str, Any]) -> dict[str, Any]:
    error = path["standard_error"]
    recorded = path | {"inherited": _hundredths(path["inherited"])}
    return recorded if error is None else recorded | {"standard_error": float(f"{error:.{OF_ERRORS}g}")}


def _hundredths(inherited: dict[str, Any] | None) -> dict[str, float] | None:
    return inherited and {"share": round(inherited["share"], report_findings.IN_SHARES)}


def _rounded(report: Report, row: Row, claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of findings with as many decimals as are kept."""
    described = report_findings.describe_claim(report, row)
    kept = {maker.claim_key: finding.decimals for maker, finding in described if maker.claim_key}
    return {key: _with_decimals(claim[key], number) for key, number in kept.items() if number is not None}


def _with_decimals(value: Any, decimals: int) -> Any:
    if isinstance(value, dict):
        return {key: _with_decimals(item, decimals) for key, item in value.items()}
    return round(value, decimals) if isinstance(value, float) else value


def _public(value: Any, names: Mapping[str, str]) -> Any:
    """Return plain values: texts on one line and escaped, figures rounded to the digits that are significant."""
    if isinstance(value, Mapping):
        return {key: _public(item, names) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_public(item, names) for item in value]
    if isinstance(value, str):
        return printable(renamed(value, names), 500)
    return float(f"{value:.{FIGURES}g}") if isinstance(value, float) else value
