"""What a record beside a model card told, whichever version of hf-lineage wrote it."""

from __future__ import annotations

import msgspec


class Tool(msgspec.Struct, frozen=True):
    """What made the record."""

    name: str
    version: str


class Told(msgspec.Struct, frozen=True):
    """What became of one claim; records of the first schema told no kind of RELATED."""

    base: str = ""
    verdict: str = ""
    kind: str | None = None
    verified: bool = False
    reason: str = ""


class Earlier(msgspec.Struct, frozen=True):
    """What every schema says under the same keys."""

    schema_version: int
    tool: Tool
    claims: tuple[Told, ...]


class _Version(msgspec.Struct):
    schema_version: int


def version(content: bytes) -> int:
    """Return the version of the schema; raise as msgspec does for what is no record."""
    return msgspec.json.decode(content, type=_Version).schema_version


def read(content: bytes) -> Earlier:
    """Return what a record told; raise as msgspec does for what is none."""
    return msgspec.json.decode(content, type=Earlier)
