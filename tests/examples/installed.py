"""hf-lineage as a script of somebody's CI finds it: a program in an environment of its own."""

import shlex
import sys
from pathlib import Path

from tests.github import ROOT

HUB = ROOT / "examples/hub"


def install(environment: Path, *, local_hub: Path | None = None) -> Path:
    """Put the program into an environment, if need be one that looks models up in a folder first."""
    after = f" --local-hub {shlex.quote(str(local_hub))}" if local_hub else ""
    lines = (
        "#!/usr/bin/env bash",
        f"export PYTHONPATH={shlex.quote(str(ROOT))}",
        f'exec {shlex.quote(sys.executable)} -m hf_lineage.cli "$1"{after} "${{@:2}}"',
    )
    return _written(environment, "\n".join(lines))


def returning(environment: Path, code: int) -> Path:
    """Put a program there that only returns a code."""
    return _written(environment, f"#!/bin/sh\nexit {code}")


def _written(environment: Path, text: str) -> Path:
    program = environment / "bin" / "hf-lineage"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"{text}\n", encoding="utf-8")
    program.chmod(0o755)
    return program
