"""The ledger: the results of `watch`, one line of JSON for each model at each commit, appended and never rewritten.

A line is on the disk before the next model is checked. A run that is killed while it writes leaves an unfinished line,
which the next run drops; two runs cannot write to one ledger at the same time.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import filelock
import msgspec

from hf_lineage import __version__
from hf_lineage.errors import LedgerError, printable
from hf_lineage.files import appending, open_regular

SCHEMA_VERSION: Literal[2] = 2
"""Raised when a key changes its meaning or goes away; new keys may come at any time."""
LONGEST_LINE = 2**22
"""The most bytes of a line: a hundred claims with values as long as they may be."""
MOST_LINES = 10**6
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Name = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}\Z")]
Commit = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{40}\Z")]


class Tool(msgspec.Struct, frozen=True):
    """What checked."""

    name: str = "hf-lineage"
    version: str = __version__


class Inherited(msgspec.Struct, frozen=True):
    """The share of what the model's units write that is inherited."""

    share: float


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim and its verdict."""

    base: str
    base_commit: str | None
    relation: str | None
    sources: tuple[str, ...]
    verdict: str
    reason: str
    score: float | None
    p_value_adjusted: float | None
    command: str
    """The command that checks the claim again."""
    kind: str | None = None
    """The kind of RELATED; null for any other verdict."""
    exit_code: int | None = None
    """What `check` returns for the claim; null where that of the verdict counts."""
    inherited: Inherited | None = None
    """Null where it was not measured."""
    part: str = ""
    """The folder or file of the repository that it is about; empty for the repository itself."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One model at one commit: its claims, none if it declares nothing, or why it could not be checked."""

    schema_version: Literal[2] = SCHEMA_VERSION
    model: Name
    commit: Commit
    watched: str
    """The author or the model under which it was listed."""
    changed: Moment
    """When the model last changed, as the Hub says."""
    checked_at: Moment
    tool: Tool = Tool()
    error: str = ""
    claims: tuple[Claim, ...] = ()


class _Version(msgspec.Struct):
    schema_version: int


@dataclass
class Ledger:
    """The content of a ledger, updated with every entry that is appended."""

    file: Path
    size: int = 0
    """Bytes of all complete lines."""
    lines: int = 0
    latest: dict[str, Entry] = field(default_factory=dict)
    """The last entry of each model."""
    known: set[tuple[str, str]] = field(default_factory=set)
    """Every recorded model with its commit."""
    marks: dict[str, datetime] = field(default_factory=dict)
    """The latest recorded change, by the author or model that is watched."""

    def append(self, entry: Entry) -> None:
        """Append an entry, which is on the disk when this returns; raise LedgerError if it cannot be written."""
        line = msgspec.json.encode(entry) + b"\n"
        with _writable(self.file, "make room for it"), appending(self.file) as stream:
            stream.write(line)
            os.fsync(stream.fileno())
        self._note(entry, len(line))

    def _note(self, entry: Entry, size: int) -> None:
        if self.lines == MOST_LINES:
            raise LedgerError(f"{self.file} has {MOST_LINES} lines, the most that are read; start another ledger")
        self.size += size
        self.lines += 1
        self.latest[entry.model] = entry
        self.known.add((entry.model, entry.commit))
        self.marks[entry.watched] = max(entry.changed, self.marks.get(entry.watched, entry.changed))


@contextlib.contextmanager
def writing(file: Path) -> Iterator[Ledger]:
    """Lock a ledger for this process and read it; an unfinished last line is removed.

    Raise LedgerError if another process has locked it, or it cannot be read or written.
    """
    try:
        held = filelock.FileLock(f"{file}.lock").acquire(timeout=0)
    except filelock.Timeout:
        raise LedgerError(f"{file} is in use by another run of watch; wait for it, or name another --ledger") from None
    except OSError as error:
        raise LedgerError(f"{file} cannot be locked: {error.strerror or error}; name another --ledger") from None
    with held as lock:
        try:
            book = read(file)
            if file.exists():
                with _writable(file, "name another --ledger"), appending(file) as stream:
                    stream.truncate(book.size)
            yield book
        finally:
            # While it is held: who opened it meanwhile finds it gone, and makes another one.
            with contextlib.suppress(OSError):
                Path(lock.lock_file).unlink()


def read(file: Path) -> Ledger:
    """Return the content of a ledger, empty if there is no file yet; raise LedgerError if the file is not a ledger.

    An unfinished last line is left out, with a warning.
    """
    book = Ledger(file)
    if not file.exists():
        return book
    if not file.is_file():
        raise LedgerError(f"{file} is not a regular file, so it cannot be a ledger; name another --ledger")
    try:
        with open_regular(file) as stream:
            while (line := stream.readline(LONGEST_LINE)).endswith(b"\n"):
                book._note(_entry(line, f"{file}, line {book.lines + 1}"), len(line))
    except OSError as error:
        raise LedgerError(f"{file} cannot be read: {error.strerror or error}; name another --ledger") from None
    if len(line) == LONGEST_LINE:
        raise LedgerError(f"{file}, line {book.lines + 1} is longer than {LONGEST_LINE >> 20} MiB; remove it")
    if line:
        logging.getLogger(__name__).warning(
            "%s: its last line is not complete and is dropped (%d bytes)", printable(file), len(line)
        )
    return book


@contextlib.contextmanager
def _writable(file: Path, remedy: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LedgerError(f"{file} cannot be written: {error.strerror or error}; {remedy}") from None


def _entry(line: bytes, where: str) -> Entry:
    try:
        if msgspec.json.decode(line, type=_Version).schema_version > SCHEMA_VERSION:
            raise LedgerError(f"{where} was written by a later hf-lineage; update hf-lineage")
        return msgspec.json.decode(line, type=Entry)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise LedgerError(f"{where} is not a ledger entry ({error}); correct or remove it") from None
