"""Journal: which models of a list could not be read, and why, so that a build does not try them for ever.

It is a file of lines beside the index. A line says that a model was begun, is done, or failed. A model that was begun
several times and neither failed nor was done took its worker down with it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hf_lineage.errors import SignatureError, printable
from hf_lineage.files import appending, open_regular, write_atomically

FILE = "build.jsonl"
TRIES = 3
"""How often a model is begun that did not fail for good."""
LARGEST = 2**30
"""Bytes of a journal, and of a line of it."""
LARGEST_LINE = 2**14


@dataclass(frozen=True)
class Trouble:
    """What became of a model so far."""

    begun: int = 0
    """Times since it was last done."""
    problem: str = ""
    """Why it failed the last time."""
    final: bool = False
    """Whether it would fail again."""

    @property
    def given_up(self) -> str:
        """Why a model is not tried any more, in one sentence; empty if it is."""
        if self.final:
            return self.problem
        if self.begun < TRIES:
            return ""
        return f"{self.problem or 'its worker ended while it was read'}; {self.begun} times, so it is not tried again"


@dataclass(frozen=True)
class Journal:
    """The journal of an index; its folder need not exist before a line is written."""

    folder: Path

    def begun(self, model: str) -> None:
        """Note that a model is being read."""
        self._append({"model": model, "event": "begun"})

    def done(self, model: str) -> None:
        """Note that a model is in the index."""
        self._append({"model": model, "event": "done"})

    def failed(self, model: str, problem: str, final: bool) -> None:
        """Note that a model could not be read, and whether that is for good."""
        self._append({"model": model, "event": "failed", "problem": problem, "final": final})

    def read(self) -> dict[str, Trouble]:
        """Return what became of every model that is not done; a line that was cut off is left out."""
        troubles: dict[str, Trouble] = {}
        for line in self._lines():
            model, event = line.get("model"), line.get("event")
            if not isinstance(model, str):
                continue
            before = troubles.get(model, Trouble())
            if event == "done":
                troubles.pop(model, None)
            elif event == "begun":
                troubles[model] = replace(before, begun=before.begun + 1)
            elif event == "failed":
                problem = printable(line.get("problem", ""))
                troubles[model] = replace(before, problem=problem, final=line.get("final") is True)
        return troubles

    def tidy(self) -> None:
        """Leave only the lines that say what became of models that are not done."""
        lines: list[dict[str, object]] = []
        for model, trouble in self.read().items():
            lines += [{"model": model, "event": "begun"}] * trouble.begun
            if trouble.problem:
                failed = {"event": "failed", "problem": trouble.problem, "final": trouble.final}
                lines.append({"model": model} | failed)
        if self.file.is_file():
            write_atomically(self.file, "".join(map(_line, lines)).encode())

    @property
    def file(self) -> Path:
        """Where it is."""
        return self.folder / FILE

    def _append(self, values: dict[str, object]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with appending(self.file) as stream:
                stream.write(_line(values).encode())  # once, so that lines of several builds do not mix
        except OSError as error:
            why = f"{error.strerror}; make room, or name another --index"
            raise SignatureError(f"{self.file} cannot be written: {why}") from None

    def _lines(self) -> Iterator[dict[str, object]]:
        try:
            if self.file.stat().st_size > LARGEST:
                raise SignatureError(f"{self.file} is larger than {LARGEST >> 30} GiB; remove it")
            with open_regular(self.file) as stream:
                while line := stream.readline(LARGEST_LINE):
                    with contextlib.suppress(ValueError, RecursionError):
                        values = json.loads(line.decode(errors="replace"))
                        if isinstance(values, dict):
                            yield values
        except FileNotFoundError:
            return
        except OSError as error:
            raise SignatureError(f"{self.file} cannot be read: {error.strerror}; check its permissions") from None


def _line(values: dict[str, object]) -> str:
    return json.dumps(values) + "\n"
