"""Interface to GitHub's runner: commands of a step on standard output, and the files that the runner names.

Source: GitHub Docs, "Workflow commands for GitHub Actions".
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

LARGEST_SUMMARY = 2**20 - 2**10
"""Bytes: GitHub refuses the summary of a step from 1 MiB on."""
CUT = "\n\nThe rest is left out because a summary must be smaller than 1 MiB; the reports are complete.\n"
_DATA = {ord(c): f"%{ord(c):02X}" for c in "%\r\n"}
_PROPERTY = {ord(c): f"%{ord(c):02X}" for c in "%\r\n:,"}


def command(name: str, message: str, **properties: str) -> str:
    """Return a workflow command, such as an annotation, on one line, whatever stands in it."""
    fields = ",".join(f"{key}={value.translate(_PROPERTY)}" for key, value in properties.items())
    return f"::{name}{' ' if fields else ''}{fields}::{message.translate(_DATA)}"


@contextlib.contextmanager
def without_commands() -> Iterator[None]:
    """Keep the runner from obeying commands in what is printed: untrusted names may be among it."""
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}", flush=True)  # noqa: T201 - this is how one talks to the runner
    try:
        yield
    finally:
        print(f"::{token}::", flush=True)  # noqa: T201


def set_outputs(file: Path, values: Mapping[str, str]) -> None:
    """Append the outputs of the step, each on one line between random marks."""
    with file.open("a", encoding="utf-8") as stream:
        for name, value in values.items():
            mark = secrets.token_hex(16)
            stream.write(f"{name}<<{mark}\n{' '.join(value.splitlines())}\n{mark}\n")


def add_summary(file: Path, markdown: str) -> None:
    """Append to the summary of the step, cut between two lines where it would be refused."""
    content = markdown.encode("utf-8", errors="backslashreplace")
    if len(content) > LARGEST_SUMMARY:
        beginning = content[: LARGEST_SUMMARY - len(CUT)]
        content = beginning[: beginning.rfind(b"\n") + 1] + CUT.encode()
    with file.open("ab") as stream:
        stream.write(content)
