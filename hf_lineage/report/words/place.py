"""Shared by the machine-readable formats: where claims stand, and JSON that means nothing to HTML or a CI runner.

Claims stand in files of the checkout, at lines, and a viewer knows them again by a fingerprint.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import yaml

from hf_lineage.checking import Report
from hf_lineage.checking.results import NAMED, Row
from hf_lineage.claims import CARD, CONFIG, ORIGIN, understood
from hf_lineage.errors import LineageError
from hf_lineage.evidence import ExitCode
from hf_lineage.files import plain_yaml
from hf_lineage.hub import ADAPTER_CONFIG, RepoRef

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
        for token in yaml.scan(source.read_head(file, LOOKED_AT) or "" if source else "", Loader=plain_yaml.FAST):
            if not isinstance(token, yaml.ScalarToken):
                continue
            if key is None:
                lines.setdefault(understood(token.value.strip().split("+", 1)[0]).base, token.start_mark.line + 1)
            elif token.value == key:
                key = None
    return lines
