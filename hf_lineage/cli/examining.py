"""The command that examines what the others depend on: doctor."""

from __future__ import annotations

from typing import Any

import click

from hf_lineage.cli.grouping import Result, take
from hf_lineage.cli.kinds import format_option
from hf_lineage.cli.shared import ERROR, OUTPUT, with_examples, with_options

EPILOG = with_examples(
    "It makes one request to the Hub, and a second one if there is a token; it never shows the token. Exit codes: 0 "
    "checks can run, 2 something prevents them, or usage error, 130 interrupted.",
    "hf-lineage doctor",
    "hf-lineage doctor --format json",
)


@click.command(epilog=EPILOG)
@with_options(format_option("text", "json"), OUTPUT)
def doctor(**settings: Any) -> int:
    """Show versions, extras, caches, the account and whether the Hub can be reached, each with what to do about it."""
    from hf_lineage.checking.single import State, diagnosis
    from hf_lineage.report.single import DIAGNOSES

    result, findings = take(Result, settings), tuple(diagnosis())
    result.write(DIAGNOSES, findings)
    return ERROR if any(finding.state is State.WRONG for finding in findings) else 0
