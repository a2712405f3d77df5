"""The option --verify of check: a stored report is checked again, and a line says what differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from hf_lineage.errors import printable
from hf_lineage.evidence import ExitCode

if TYPE_CHECKING:
    from hf_lineage.checking import Options

AGAIN = {"models", "bases", "local_hub", "allow_pickle", "run", "as_class", "nulls", "file"}
BESIDE = AGAIN | {"verify", "outputs", "recompute"}
"""The parameters of check that may stand beside it: all that a report does not decide."""


def verified(file: Path, models: Sequence[str], bases: Sequence[str], options: Options) -> tuple[str, int]:
    """Return what differs, a line each, and the exit code: 0 where nothing does, 1 where a word or code does."""
    from hf_lineage.report.formats import stored

    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        if name not in BESIDE and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--verify takes the settings of FILE; leave {option.opts[0]} out")
    if models[1:]:
        raise click.UsageError("--verify is about one model; name it, or none")
    again, found = stored.verify(stored.read(file), next(iter(models), None), bases, options)
    lines, grave = [line for line, _ in found], any(wrong for _, wrong in found)
    code = ExitCode.UNRELATED if grave else ExitCode.UNDECIDED if found else ExitCode.VERIFIED
    return "\n".join([*lines, f"Checked {printable(again)}; differences: {len(found) or 'none'}."]) + "\n", int(code)
