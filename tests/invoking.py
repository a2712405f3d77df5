"""Running the command line, in this process or in one of its own."""

import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import takewhile
from typing import Any

from hf_lineage.cli import main

COMMAND = [sys.executable, "-m", "hf_lineage.cli"]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line on standard error of a run that failed: no traceback, no usage, no half a report."""
        assert (self.code in (2, 4), self.out) == (True, ""), self
        assert self.err.startswith("hf-lineage: "), self
        assert self.err.endswith("\n"), self
        assert self.err.count("\n") == 1, self
        assert self.err.strip("\n").isprintable(), self
        return self.err.removeprefix("hf-lineage: ").rstrip("\n")

    @property
    def rows(self) -> list[list[str]]:
        """The cells of every row of the text report's table."""
        _, rule, table = self.out.partition("─\n")
        assert rule, self
        return [line.split() for line in takewhile(lambda line: line.startswith(" "), table.splitlines())]

    @property
    def sentences(self) -> str:
        return " ".join(self.out.split())


def lineage(*arguments: object) -> Outcome:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Outcome(code, out.getvalue(), err.getvalue())


def environment(**changes: str) -> dict[str, str]:
    """The environment of a process of its own: no account, one thread."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
    return inherited | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"} | changes


def run_process(command: Iterable[object], **settings: Any) -> Outcome:
    """Run a command in a process of its own, as subprocess.run is told to."""
    chosen: dict[str, Any] = {"env": environment(), "timeout": 60} | settings
    done = subprocess.run([*map(str, command)], capture_output=True, encoding="utf-8", check=False, **chosen)
    return Outcome(done.returncode, done.stdout, done.stderr)


def process(*arguments: object, **settings: Any) -> Outcome:
    """Run the command line in a process of its own."""
    return run_process([*COMMAND, *arguments], **settings)


def shell(script: str, *arguments: object) -> Outcome:
    """Run a script of bash in which `"$@"` is the command line with these arguments."""
    return run_process(["bash", "-c", script, "bash", *COMMAND, *arguments])


def check(hub, *arguments):
    """Run `check` on the model of a local hub that declares its base there."""
    return lineage("check", "fern/child", "--local-hub", hub, *arguments)
