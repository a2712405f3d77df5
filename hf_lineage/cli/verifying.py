"""The option --verify of check: a stored report is checked again, and a line says what differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from hf_lineage.cli.kinds import path_option
from hf_lineage.evidence import ExitCode

if TYPE_CHECKING:
    from hf_lineage.checking import Options

AGAIN = {"models", "bases", "on_hub", "local_hub", "allow_pickle", "run", "registry", "nulls", "file"}
BESIDE = AGAIN | {"verify", "output", "max_memory", "recompute", "no_cache"}
"""The parameters of check that may stand beside it: all that a report does not decide."""
VERIFY = path_option(
    "--verify",
    "FILE",
    "Check the JSON report in FILE, such as lineage/claims.json, again with its settings, and print what differs; 1 "
    "where a word or code does. MODEL is that of FILE if it is left out.",
)


def verified(
    file: Path, models: Sequence[str], bases: Sequence[str], on_hub: bool, options: Options
) -> tuple[str, int]:
    """Return a line for each difference, and the exit code: 0 where nothing differs, 1 where a word or code does."""
    from hf_lineage.report.formats import stored

    context = click.get_current_context()
    given = (option for option in context.command.params if option.name in {*context.params} - BESIDE)
    for option in given:
        if context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--verify takes the settings of FILE; leave {option.opts[0]} out")
    if models[1:]:
        raise click.UsageError("--verify is about one model; name it, or none")
    found = stored.verify(stored.read(file), next(iter(models), None), bases, options, on_hub)
    lines = [difference.line for difference in found] or ["Nothing differs."]
    code = ExitCode.UNRELATED if any(one.grave for one in found) else ExitCode.UNDECIDED if found else ExitCode.VERIFIED
    return "".join(f"{line}\n" for line in lines), int(code)
