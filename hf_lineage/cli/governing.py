"""What the commands that judge do with a policy: its options, and the report under it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hf_lineage.cli.kinds import path_option
from hf_lineage.evidence import FAIL_ON

if TYPE_CHECKING:
    from hf_lineage.checking import Report
    from hf_lineage.hub import RepoRef
    from hf_lineage.policy import Policy
    from hf_lineage.signature import Signature

FILE = click.option(
    "--policy",
    metavar="FILE",
    help="Accept the findings that FILE accepts, and ask for what it asks for; `own` is lineage.yaml of the folder "
    "that is checked, where there is one.",
)
POLICY = path_option(
    "--policy",
    "FILE",
    "Accept the findings that FILE accepts of the models that it names, and ask for what it asks for.",
)
FAILS = click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    help="What does not return 0: UNRELATED or a damaged base alone, an undeclared parent as well, what is undecided "
    "as well, or nothing; by default what the policy says, else undecided.",
)


def policy_of(policy: str | None, fail_on: str | None, locate: Callable[[], RepoRef | Signature]) -> Policy | None:
    """Return the policy that the options name; `locate` returns the model. OptionError for one that is not valid."""
    from hf_lineage.checking import asked

    return asked(policy, fail_on, locate)


def policy_in(file: Path | None, fail_on: str | None) -> Policy:
    """Return the policy in a file, with what is to fail; OptionError if it is not valid."""
    from dataclasses import replace

    from hf_lineage.checking import read
    from hf_lineage.policy import NO_POLICY

    chosen = NO_POLICY if file is None else read(file)
    return chosen if fail_on is None else replace(chosen, fail_on=fail_on)


def under(report: Report, policy: Policy | None) -> Report:
    """Return the report under a policy as it is today (UTC)."""
    from hf_lineage.checking import policies

    return policies.under(report, policy, datetime.now(UTC).date())
