"""Stored JSON reports, held against a new check.

A report decides the settings, but never makes the checker run code, read pickles, or read another file of this machine.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from hf_lineage.checking import check
from hf_lineage.checking.result import NAMED
from hf_lineage.errors import CardError, OptionError, printable
from hf_lineage.files.paths import open_regular
from hf_lineage.hub import client
from hf_lineage.report import json
from hf_lineage.signature.recipe import RECIPES, Recipe
from hf_lineage.source.locate import is_here, locate_model
from hf_lineage.source.options import Options

LARGEST = 2**26  # bytes of a report that is read: a hundred claims of a hundred layers take 20 million
PRINTED = {"score": 1e-3, "inherited share": 1e-2}  # one unit of the last digit that reports print of each
VERDICT, COMMIT = "verdict", "commit"
Read = TypeVar("Read")


class StoredClaim(msgspec.Struct, frozen=True):
    """The part of a claim that a new check is held against."""

    base: str
    base_commit: str | None
    model: str
    model_commit: str | None
    part: str
    sources: tuple[str, ...]
    verdict: str
    code: str
    score: float | None
    inherited: dict[str, float] | None


class StoredReport(msgspec.Struct, frozen=True):
    """The part of a JSON report by which it is made again."""

    compared: bool
    model: str
    commit: str | None
    recipe: Recipe
    settings: dict[str, Any]
    claims: Annotated[tuple[StoredClaim, ...], msgspec.Meta(max_length=2000)]

    def __str__(self) -> str:
        checked = dict.fromkeys((claim.base, claim.base_commit) for claim in self.claims)
        names = (f"{name.partition('@')[0]}@{commit}" if commit else name for name, commit in checked)
        # Whoever wrote the report chose by how much it verifies.
        usual = {"alpha": Options().alpha, "min_share": Options().min_share}
        odd = (f"; {name} {self.settings.get(name)}" for name in usual if self.settings.get(name) != usual[name])
        return f"{self.model} against {', '.join(names) or 'nothing'}{''.join(odd)}"


class _Version(msgspec.Struct):
    schema_version: int


def is_older(content: bytes, name: str) -> bool:
    """Return whether a report is of an earlier version; CardError for a later one, and for any other file."""
    version = _decode(content, name, _Version).schema_version
    if version > json.SCHEMA_VERSION:
        raise CardError(f"{name} was written by a later hf-lineage; update hf-lineage")
    return version < json.SCHEMA_VERSION


def decode(content: bytes, name: str) -> StoredReport:
    """Return a report of this version; CardError for any other file."""
    if is_older(content, name):
        raise CardError(f"{name} was written by an earlier hf-lineage; check the model again")
    return _decode(content, name, StoredReport)


def _decode(content: bytes, name: str, kind: type[Read]) -> Read:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, OptionError, RecursionError, ValueError) as error:
        instead = "move it away" if name == json.RECORD else "name another file"
        raise CardError(f"{name} is not a file that hf-lineage wrote ({error}); {instead}") from None


def alike(one: Any, other: Any) -> bool:
    """Return whether plain values are the same, up to what the last digits of a number differ by between machines."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=2e-3, abs_tol=1e-6)
    return type(one) is type(other) and bool(one == other)


def read_report(file: Path) -> StoredReport:
    """Return the report in a file; CardError for what is none of this version, or cannot be read."""
    name = printable(file, 200)
    try:
        with open_regular(file) as stream:
            content = stream.read(LARGEST + 1)
    except OSError as error:
        raise CardError(f"{name} cannot be read: {error.strerror}; name another file") from None
    if len(content) > LARGEST:
        raise CardError(f"{name} is larger than {LARGEST >> 20} MiB, and no report; name another file")
    return decode(content, name)


def verify(
    stored: StoredReport, model: str | None, bases: Sequence[str], options: Options
) -> tuple[StoredReport, list[tuple[str, bool]]]:
    """Return a new report and a line for each difference, with whether a word or code differs; or OptionError."""
    missing = [typed for name, typed in json.AGAIN.items() if stored.settings.get(name) and not getattr(options, name)]
    if missing:
        raise OptionError(f"the report was made with {', '.join(missing)}, which no file turns on; add it yourself")
    known = RECIPES.get(stored.recipe.option)
    if known is None or replace(known, probes=stored.recipe.probes) != stored.recipe:
        raise OptionError("the report has a recipe that this hf-lineage does not know; check the model again")
    settings: dict[str, Any] = {name: stored.settings[name] for name in json.TAKEN if name in stored.settings}
    options = replace(options, recipe=stored.recipe, **settings)
    typed = dict.fromkeys((claim.base, claim.base_commit) for claim in stored.claims if claim.sources == NAMED)
    if bases and len(bases) != len(typed):
        raise OptionError(f"the report has {len(typed)} bases by --base, not {len(bases)}; give each of them, or none")
    bases_again = tuple(bases) or tuple(_pin_name(*base, "--base BASE") for base in typed)
    if stored.compared:
        models = dict.fromkeys((claim.model, claim.model_commit) for claim in stored.claims)
        if len(bases_again) != 1 or (model and len(models) != 1):
            raise OptionError("the report compares several models; leave MODEL out")
        several = [model] if model else [_pin_name(*one, "MODEL") for one in models]
        report = check.compare(bases_again[0], several, options)
    else:
        name = model or _pin_name(stored.model, stored.commit, "MODEL")
        pairs = ((claim.base, claim.base_commit or "") for claim in stored.claims)
        commits = {base: commit for base, commit in pairs if client.COMMIT.fullmatch(commit)}
        report = check.check_source(name, locate_model(name, options), bases_again, options, commits)
    again = decode(json.render(report).encode(), "the new report")
    return again, list(_differences(stored, again, dict(zip(bases, (base for base, _ in typed), strict=False))))


def _pin_name(name: str, commit: str | None, remedy: str) -> str:
    """Return a name on the Hub at its commit; OptionError for a path, which is of another machine or chosen to harm."""
    if is_here(name) or not client.COMMIT.fullmatch(commit or "0" * 40):
        place = printable(name if commit is None else f"{name}@{commit}", 200)
        raise OptionError(f"the report names {place}, which is not opened as it is no model on the Hub; add {remedy}")
    return name if commit is None else f"{name.partition('@')[0]}@{commit}"


def _differences(before: StoredReport, now: StoredReport, names: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """Yield what differs by more than rounding; `names` has names of the first by those that the second has instead."""
    several = len({claim.model for claim in before.claims}) > 1
    old, new = dict[str, dict[str, str | float | None]](), dict[str, dict[str, str | float | None]]()
    for report, values in ((before, old), (now, new)):
        for one in report.claims:
            keys = (names.get(one.base, one.base), one.part, one.model * several)
            label = ", ".join(word.partition("@")[0] for word in keys if word)
            values[label] = {VERDICT: f"{one.verdict} {one.code}", "score": one.score}
            values[label] |= {"inherited share": (one.inherited or {}).get("share"), COMMIT: one.base_commit}
        values["the model"] = {COMMIT: report.commit}
    for label in old | new:
        first, other = (some.get(label, {VERDICT: "no claim"}) for some in (old, new))
        for key in (key for key in first if key in other and first[key] != other[key]):
            pair = first[key], other[key]
            numbers = [value for value in pair if isinstance(value, float)]
            close = bool(numbers[1:]) and math.isclose(*numbers, rel_tol=0, abs_tol=PRINTED[key])
            if not close and (key != COMMIT or None not in pair):
                cells = [f"{value:.3f}" if isinstance(value, float) else value for value in pair]
                yield printable(f"{label}: {key} {cells[0]} stored, {cells[1]} now", 300), key == VERDICT
