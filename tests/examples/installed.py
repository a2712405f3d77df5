"""hf-lineage as a script of somebody's CI finds it: a module of a Python in an environment of its own."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.github import ROOT

HUB = ROOT / "examples/hub"


def install(environment: Path, *, local_hub: Path | None = None) -> Path:
    """Put the program into an environment, if need be one that looks models up in a folder first."""
    after = f" --local-hub {shlex.quote(str(local_hub))}" if local_hub else ""
    main = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from hf_lineage.cli import main; sys.exit(main())"
    lines = (
        "#!/usr/bin/env bash",
        'flag="$1"; [ "$2 $3" = "-m hf_lineage.cli" ] || exit 127; shift 3',
        f'exec {shlex.quote(sys.executable)} "$flag" -c {shlex.quote(main)} "$1"{after} "${{@:2}}"',
    )
    return _written(environment, "\n".join(lines))


def returning(environment: Path, code: int, told: str = "") -> Path:
    """Put a program there that returns a code, and leaves what the format `github` says where that is asked for."""
    place = environment / "told.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(told, encoding="utf-8")
    leave = f'for word; do case "$word" in github=*) cp {shlex.quote(str(place))} "${{word#github=}}" ;; esac; done'
    return _written(environment, f"#!/bin/sh\n{leave if told else ''}\nexit {code}")


def asked(environment: Path, options: Sequence[str] = ()) -> Path:
    """Put a program there that writes the options among its words that are asked about into the file `asked`."""
    names = "|".join(f"--{option}" for option in options)
    show = f'while [ $# -gt 0 ]; do case "$1" in {names}) echo "$1 $2" >> asked ;; esac; shift; done'
    return _written(environment, f"#!/bin/sh\n: > asked\n{show}\nexit 0")


def _written(environment: Path, text: str) -> Path:
    program = environment / "bin" / "python"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"{text}\n", encoding="utf-8")
    program.chmod(0o755)
    return program
