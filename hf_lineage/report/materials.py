"""Parts that records share: where claims stand, the verified bases, and JSON that means nothing to HTML or a runner.

Claims stand in files of the checkout, at lines, and a viewer knows them again by a fingerprint.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import yaml

from hf_lineage.checking.report import Report
from hf_lineage.checking.result import NAMED, Row
from hf_lineage.checkpoint.weight_files import weight_files
from hf_lineage.claims.names import understood
from hf_lineage.claims.sources import CARD, CONFIG, ORIGIN
from hf_lineage.errors import LineageError, NothingToCompare, printable
from hf_lineage.evidence.verdict import ExitCode
from hf_lineage.files import safe_yaml
from hf_lineage.hub.repo import ADAPTER_CONFIG, RepoRef
from hf_lineage.report import wording

_MARKUP = {ord(c): f"\\u{ord(c):04x}" for c in "<>&#"}


def encode(document: Any) -> str:
    """Return plain values as indented JSON in ASCII, in which markup and what a CI runner obeys (`##[`) are escaped.

    The values stay what they are, and no page, terminal or log that shows the file finds anything to act on.
    """
    return json.dumps(document, indent=2, allow_nan=False).translate(_MARKUP) + "\n"


def indented(document: Any) -> str:
    """Return structs or plain values as indented JSON, letters as they are: names in it must be printable already."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


KEYS = {CARD: "base_model", ADAPTER_CONFIG: "base_model_name_or_path", CONFIG: ORIGIN}
"""Keys that stand before the base; a merge names its models in many places."""
LOOKED_AT = 2**18
"""Bytes of a file in which a line is looked for: PyYAML's own scanner takes seconds for them."""


@dataclass(frozen=True)
class Place:
    """A file, as a relative reference, and the line in it, counted from 1; None if it is not known."""

    uri: str
    line: int | None


def places(report: Report) -> list[list[Place]]:
    """Return for each row where the claim is made; for a base that the user named, where it could be declared."""
    files = [(CARD,) if row.claim.sources == NAMED else row.claim.sources for row in report.rows]
    lines = {file: _lines(report.source, file) for file in {file for some in files for file in some}}
    return [
        [Place(_uri(report.source, file), lines[file].get(row.claim.base)) for file in some]
        for row, some in zip(report.rows, files, strict=True)
    ]


def fingerprint(report: Report, row: Row) -> str:
    """Return what stays the same when the model, or the line that makes the claim, moves: who claims what."""
    words = "\n".join((report.model.partition("@")[0], row.claim.base, *filter(None, (row.part,))))
    return hashlib.sha256(words.encode("utf-8", errors="surrogateescape")).hexdigest()[:32]


def holds(row: Row) -> bool:
    """Return whether a claim is no finding: it is RELATED as it has to be, and lacks nothing that a policy asks for."""
    return row.verdict.exit_code is ExitCode.VERIFIED and not row.unmet


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
                lines.setdefault(understood(token.value.strip().split("+", 1)[0]).base, token.start_mark.line + 1)
            elif token.value == key:
                key = None
    return lines


NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/hf-lineage/hf-lineage")
RECORD = "lineage/claims.json"
"""The JSON report beside a model card."""
DIGITS = Decimal("0.0001")


def title(report: Report) -> str:
    """Return what a model is called that may be none of the Hub: its folder."""
    return report.source.folder.resolve().name if report.source and not report.source.remote else report.model


def ancestors(report: Report, part: str = "") -> list[Row]:
    """Return a row for each verified base, the nearest first and the one of which the model has least last.

    What comes from elsewhere in a part of a model is told of that part, and not of the model.
    CycloneDX does not say in which order ancestors stand; who reads them (Trustify) takes the last as the upstream of
    all. So the base of a merge, from which its parents come as well, is the last.
    """
    verified: dict[str, Row] = {}
    apart = report.parts
    for row in report.rows:
        if row.verdict.verified and (row.part == part or not apart):
            verified.setdefault(row.claim.base, row)
    return sorted(verified.values(), key=_distance)


def confidence(row: Row) -> Decimal | None:
    """Return 1 - p: the level at which the test rejects that the two are independent; None where nothing was tested.

    It is what the evidence is worth, and neither how alike the two are nor how much of the base is in the model. It
    is rounded down, because no test is certain.
    """
    p_value = wording.p_value(row)
    return None if p_value is None else (1 - Decimal(f"{p_value:.6g}")).quantize(DIGITS, ROUND_DOWN).normalize()


def digests(repo: RepoRef | None) -> dict[str, str]:
    """Return each file that holds weights with its SHA-256, none where there are none.

    They pin a folder as its commit pins a model on the Hub. Files are read as a whole for them.
    """
    if repo is None:
        return {}
    try:
        return {printable(file, 200): repo.sha256(file) for file in sorted(weight_files(repo))}
    except NothingToCompare:
        return {}


def pinned(report: Report) -> Report:
    """Return a report in which the origin of every base that is a folder names its files and their digests."""
    return replace(report, rows=tuple(_pinned(row) if row.base_folder else row for row in report.rows))


def _pinned(row: Row) -> Row:
    return replace(row, base_origin=row.base_origin and replace(row.base_origin, files=digests(row.base_folder)))


def _distance(row: Row) -> tuple[bool, float, float]:
    best, share = wording.best(row), wording.inherited_share(row)
    is_base = row.parent is not None and row.parent.is_base
    return is_base, -(share or 0.0), -(best.comparison.score if best else 0.0)
