"""Delivery of a report by commands that judge: its formats, the files that it goes to, its policy, their options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hf_lineage.cli.kinds import take, writable, write
from hf_lineage.cli.shared import OUTPUT
from hf_lineage.errors import NothingToCompare, OptionError, printable
from hf_lineage.evidence import FAIL_ON
from hf_lineage.files import is_file, is_folder
from hf_lineage.report import FORMATS, OF_SEVERAL, names

if TYPE_CHECKING:
    from hf_lineage.checking import Report
    from hf_lineage.hub import RepoRef
    from hf_lineage.policy import Policy
    from hf_lineage.signature import Signature

POLICY = click.option(
    "--policy",
    metavar="FILE",
    help="Apply the policy in FILE: the findings that it accepts, and what it requires; `own` is lineage.yaml of the "
    "folder that is checked, if it has one.",
)
FAILS = click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    help="What makes the exit code other than 0: only UNRELATED or a damaged base, undeclared parents too, "
    "undecided results too, or nothing; by default what the policy says, otherwise undecided.",
)


def policy_of(policy: str | None, fail_on: str | None, locate: Callable[[], RepoRef | Signature]) -> Policy | None:
    """Return the policy that the options name; `locate` returns the model. OptionError for one that is not valid."""
    if policy is None and fail_on is None:
        return None
    from hf_lineage.checking.results import asked

    return asked(policy, fail_on, locate)


def under(report: Report, policy: Policy | None) -> Report:
    """Return the report under a policy as it is today (UTC)."""
    if policy is None:
        return report.without_policy()
    from hf_lineage.checking.results import policies

    return policies.under(report, policy, datetime.now(UTC).date())


Reports = tuple[tuple[str, Path], ...]
"""Formats, each with the file that it goes to."""
FORMAT = click.option(
    "--format",
    "form",
    type=click.Choice(names()),
    default="text",
    show_default=True,
    help="Format of the report; html is a single page.",
)


def _reports(context: click.Context, option: click.Parameter, wanted: tuple[str, ...]) -> Reports:
    """Return the formats with their files; a file that cannot be written is refused at once."""
    reports = []
    for pair in wanted:
        form, _, file = pair.partition("=")
        if form not in FORMATS or not file:
            raise click.BadParameter(f"{pair!r} is not FORMAT=FILE; the formats are {', '.join(names())}")
        writable(context, option, Path(file))
        reports.append((form, Path(file)))
    return tuple(reports)


REPORTS = click.option(
    "--report",
    "reports",
    multiple=True,
    callback=_reports,
    metavar="FORMAT=FILE",
    help="Also write the report to FILE in this format; repeatable.",
)


def _public_name(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    """Refuse what is no name on the Hub, as which readers would take it."""
    if name is not None:
        from hf_lineage.hub import hub_name

        if hub_name(name) != name or "/" not in name:
            raise click.BadParameter(f"{printable(name, 200)!r} is not org/name")
    return name


AS_NAME = click.option(
    "--as-name",
    callback=_public_name,
    metavar="ORG/NAME",
    help="The name to show for MODEL, or B, in the page, in Markdown and in their commands, if it is a folder.",
)
REPORT = (
    FORMAT,
    OUTPUT,
    REPORTS,
    AS_NAME,
    click.option(
        "--explain",
        is_flag=True,
        help="Add the numbers of every layer, the null distributions, and the limits of the method.",
    ),
)


def ready(*forms: str) -> None:
    """Raise OptionError where a package is missing that one of these formats needs, before anything is read."""
    from hf_lineage.report import renderer

    for form in forms:
        renderer(form)


def write_reports(report: Report, reports: Reports) -> None:
    """Write a report into each of these files, in the format beside it; a line says where one has nothing to say."""
    from hf_lineage.report import write_report

    for form, file in reports:
        try:
            write_report(report, form, file)
        except NothingToCompare as error:
            click.echo(f"hf-lineage: {printable(file.name)} was not written: {printable(str(error))}", err=True)


@dataclass(frozen=True)
class Delivery:
    """Formats of a report, and the places to which it goes."""

    form: str
    output: Path | None
    reports: Reports
    as_name: str | None
    explain: bool

    @classmethod
    def take(cls, settings: dict[str, Any]) -> Delivery:
        """Take the values of the REPORT options out of those of a command; OptionError where a package is missing."""
        delivery = take(cls, settings)
        ready(delivery.form, *(form for form, _ in delivery.reports))
        return delivery

    def refuse(self, model: str) -> None:
        """Raise OptionError for a model that has a name on the Hub and is given another one."""
        if self.as_name and not (is_folder(model) or is_file(model)):
            raise OptionError(f"--as-name is for a folder, and {printable(model, 200)} is not one; leave it out")

    @property
    def only_one(self) -> str:
        """The first option that is about one model; empty if none was given."""
        given = {"--explain": self.explain, "--as-name": self.as_name, "--report": self.reports}
        return next((name for name, value in given.items() if value), "")

    def refuse_several(self) -> None:
        """Raise OptionError for what is about one model, where several are compared."""
        single = [form for form in (self.form, *(form for form, _ in self.reports)) if form not in OF_SEVERAL]
        told = f"--format {single[0]}" if single else "--as-name" if self.as_name else ""
        if told:
            raise OptionError(f"{told} is about one model; compare two models with it")

    def deliver(self, report: Report) -> int:
        """Write the report everywhere and return its exit code, or what a policy makes of it."""
        from hf_lineage.report import renderer

        report = replace(report, as_name=self.as_name or "")
        write_reports(report, self.reports)
        write(renderer(self.form)(report, self.explain), self.output, coloured=self.form == "text")
        return int(report.status)
