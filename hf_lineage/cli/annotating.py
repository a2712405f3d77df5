"""The command that writes into model cards: annotate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from hf_lineage.cli.delivery import POLICY, REPORTS, Reports, policy_of, ready, under, write_reports
from hf_lineage.cli.kinds import MODEL, take
from hf_lineage.cli.shared import BASES, make_options, settings, with_examples, with_options

if TYPE_CHECKING:
    from hf_lineage.annotate import Target

EPILOG = with_examples(
    "MODEL is org/name, org/name@branch, or a folder as ./name. A base is written as verified only if more than half "
    "is inherited from it; any other verdict is written with its reason. Exit codes: 0 the card was written or is up "
    "to date, whatever the verdicts; 2 usage or input error, nothing was written; 130 interrupted.",
    "hf-lineage annotate org/model",
    "hf-lineage annotate ./folder --write",
    "hf-lineage annotate org/model --pull-request",
    "hf-lineage annotate ./folder --base org/base --write",
)


@dataclass(frozen=True)
class Asked:
    """Options that say what is to be written, and where."""

    write: bool
    pull_request: bool
    bases: tuple[str, ...]

    def refuse(self) -> None:
        """Raise UsageError for options that contradict each other."""
        if self.write and self.pull_request:
            raise click.UsageError("give --write or --pull-request, not both")

    @property
    def target(self) -> Target:
        """The place to which the card goes."""
        return "write" if self.write else "pull-request" if self.pull_request else "preview"


@click.command(epilog=EPILOG)
@click.argument("model", type=MODEL)
@click.option("--write", is_flag=True, help="Write into the folder, or commit to the branch on the Hub.")
@click.option("--pull-request", is_flag=True, help="Open a pull request on the Hub, or update your open one.")
@with_options(BASES, *settings(), REPORTS, POLICY)
def annotate(model: str, outputs: Reports, policy: str | None, **values: Any) -> int:
    """Write what `check` finds into the card of MODEL; without --write or --pull-request, show what would change."""
    asked = take(Asked, values)
    asked.refuse()
    from hf_lineage.annotate import annotation
    from hf_lineage.checking.source import located

    ready(*(form for form, _ in outputs))
    options = make_options(**values)
    governed = policy_of(policy, None, lambda: located(model, options))
    annotated = annotation.annotate(model, asked.bases, options, asked.target)
    write_reports(under(annotated.report, governed), outputs)
    done = annotation.TARGETS[asked.target](annotated)
    click.echo(f"{annotated.verdicts}{done}")
    return 0
