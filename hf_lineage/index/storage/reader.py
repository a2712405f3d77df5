"""Reader: shards are read by a process of its own, which may end by one, and what it hands back is checked.

Anybody may have written an index, in a checkout as well as on the Hub. So every shard is foreign.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from hf_lineage.architecture.registry import PATHS
from hf_lineage.errors import OptionError, SignatureError, printable
from hf_lineage.index.storage.decoding import GONE, GROUP, HEAD, MOST_BYTES, PROBLEM
from hf_lineage.index.storage.shards import NAMES, ROWS, libraries, schema
from hf_lineage.signature import WIDEST

SECONDS = 60.0
"""Until a group of rows has to be there."""
MOST_LAYERS = 100_000
TEXTS = ("model", "commit", "path", "recipe", "source")
LARGEST_FRAME = 2 * MOST_BYTES
"""Bytes: the rows of a group, and what Arrow says of them."""
HUB_NAME = r"([A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9_][\w.-]{0,95}"
COMMIT = "[0-9a-f]{40}"
COMMAND = "import sys; sys.path[:] = {path!r}; from hf_lineage.index.storage.decoding import main; main()"
"""It finds what this process finds, and obeys nothing of the working directory beside that."""
ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR")
"""What such a process learns of the variables here: no token."""
ALONE = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""What keeps the room that it reserves near the room that it uses."""


@dataclass(frozen=True)
class Terms:
    """What the rows of a shard have to be."""

    longest: int
    """Bytes of a text."""
    rules: Mapping[str, str]
    """For a column, what each of its texts has to be."""
    remedy: str
    """What to do where one is not."""


OWN = Terms(2**12, {"source": f"^({HUB_NAME}@{COMMIT})?$"}, "remove it and add its models again")
"""An index in a folder: its models may be folders, and it may hold what was pulled."""
RECEIVED = Terms(
    400,
    {
        "model": rf"^{HUB_NAME}(/\w[\w.-]{{0,95}})*$",
        "commit": f"^{COMMIT}$",
        "path": f"^({'|'.join(PATHS)})$",
        "recipe": r"^[\w.-]+$",
        "source": "^$",
    },
    "name a revision at which it is complete",
)
"""An index on the Hub."""


@dataclass
class Reader:
    """A process that reads shards one after the other; one that ends is replaced by another for the next shard."""

    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __enter__(self) -> Reader:
        with contextlib.suppress(OSError):
            self._started()  # it imports pyarrow while this process does
        try:
            libraries()
        except OptionError:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def groups(
        self, file: Path, terms: Terms = OWN, columns: Sequence[str] = (*NAMES, "key"), called: str = ""
    ) -> Iterator[Any]:
        """Yield some columns of a shard, a record batch for each group of rows.

        Raise SignatureError, which names the shard as it is called, for what is none, and FileNotFoundError if gone.
        """
        arrow, _ = libraries()
        wanted, kind = arrow.schema([schema().field(name) for name in columns]), GROUP
        try:
            process = self._asked({"file": str(file.absolute()), "columns": list(columns), "longest": terms.longest})
            while kind == GROUP:
                kind, content = _frame(process)
                if kind == GROUP:
                    yield checked(content, wanted, terms)
        except (OSError, ValueError) as error:
            raise _refusal(called or file, str(error), terms) from None
        finally:
            if kind == GROUP:  # what is left of this answer must not be taken for the next
                self.close()
        if kind == GONE:
            raise FileNotFoundError(file)
        if kind == PROBLEM:
            raise _refusal(called or file, content.decode(errors="replace"), terms)

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _started(self) -> subprocess.Popen[bytes]:
        """The process that reads; another one where it has ended."""
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            known = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
            command, pipe = [sys.executable, "-I", "-c", COMMAND.format(path=sys.path)], subprocess.PIPE
            self._process = subprocess.Popen(  # noqa: S603 - this Python, and what it finds already
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=known | ALONE
            )
        return self._process

    def _asked(self, request: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        """The process, which is about to answer a request."""
        process = self._started()
        stream = cast(IO[bytes], process.stdin)
        stream.write(json.dumps(request).encode() + b"\n")
        stream.flush()
        return process


def _frame(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """The next frame of an answer, what it is and what it holds; ValueError if none comes, or too large a one."""
    stream, late = cast(IO[bytes], process.stdout), threading.Event()

    def stop() -> None:
        late.set()
        process.kill()

    clock = threading.Timer(SECONDS, stop)
    clock.start()
    try:
        head = stream.read(HEAD.size)
        kind, size = HEAD.unpack(head) if len(head) == HEAD.size else (b"", 0)
        if size > LARGEST_FRAME:
            raise ValueError(f"a group of its rows takes {size} bytes")
        content = stream.read(size)
    finally:
        clock.cancel()
    if not kind or len(content) < size:
        raise ValueError(f"it was not read within {SECONDS:.0f} s" if late.is_set() else _ended(process.wait()))
    return kind, content


def _ended(code: int) -> str:
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"the process that read it ended ({how})"


def _refusal(called: str | Path, problem: str, terms: Terms) -> SignatureError:
    return SignatureError(f"{called} is not a file of an index: {printable(problem, 200)}; {terms.remedy}")


def checked(content: bytes, wanted: Any, terms: Terms) -> Any:
    """Return rows in Arrow's format by a schema; raise ValueError for what they are not, or must not be."""
    arrow, _ = libraries()
    try:
        rows = arrow.ipc.read_record_batch(arrow.py_buffer(content), wanted)
        rows.validate(full=True)
    except Exception as error:  # whatever Arrow makes of bytes that are no rows
        raise ValueError(f"what was read from it is not rows: {error}") from None
    if len(rows) > ROWS or any(column.null_count for column in rows.columns):
        raise ValueError(f"a group has {len(rows)} rows, or some without a value")
    if problem := wrong(rows, terms):
        raise ValueError(problem)
    return rows


def wrong(rows: Any, terms: Terms) -> str:
    """Return what is wrong with some rows: what cannot be of a model; empty if nothing is."""
    import pyarrow.compute as compute

    for name in (name for name in TEXTS if name in rows.schema.names):
        texts = compute.unique(rows[name])
        if len(texts) and compute.max(compute.binary_length(texts)).as_py() > terms.longest:
            return f"a {name} is longer than {terms.longest} bytes"
        others = texts.filter(compute.invert(compute.match_substring_regex(texts, terms.rules.get(name, ""))))
        if len(others):
            return f"{others[0].as_py()!r} is not a {name}"
    for name, most in (("width", WIDEST), ("layers", MOST_LAYERS)):
        if name in rows.schema.names and len(rows):
            values = compute.min_max(rows[name]).as_py()
            if not 0 < values["min"] <= values["max"] <= most:
                return f"a {name} lies outside 1 to {most}"
    return ""
