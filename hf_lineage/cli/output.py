"""Delivery of a report by commands that judge: its formats, the files that it goes to, its policy, their options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hf_lineage.cli.options import Command, format_option, has_separator, take, writable, write
from hf_lineage.errors import NothingToCompare, OptionError, printable
from hf_lineage.evidence.criteria import FAIL_ON
from hf_lineage.report import FORMATS, OF_SEVERAL, names, renderer, write_report

if TYPE_CHECKING:
    from hf_lineage.checking.report import Report
    from hf_lineage.hub.repo import RepoRef
    from hf_lineage.policy import Policy
    from hf_lineage.signature.values import Signature

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
    from hf_lineage.checking.report import asked

    return asked(policy, fail_on, locate)


def under(report: Report, policy: Policy | None) -> Report:
    """Return the report under a policy as it is today (UTC)."""
    from hf_lineage.checking.report import under as apply_policy

    return apply_policy(report, policy, datetime.now(UTC).date())


Reports = tuple[tuple[str, Path], ...]
"""Formats, each with the file that it goes to; that of --format is empty."""


def _outputs(context: click.Context, option: click.Parameter, wanted: tuple[str, ...]) -> Reports:
    """Return the formats with their files; a file that cannot be written is refused at once.

    One file may take what is printed otherwise, where a report is printed.
    """
    pairs = tuple((form, Path(file)) for form, file in map(_split, wanted))
    for _, file in pairs:
        writable(context, option, file)
    bare, formats = [file for form, file in pairs if not form], ", ".join(names())
    if bare and option.metavar == ALWAYS:
        raise click.BadParameter(f"{str(bare[0])!r} is not FORMAT=FILE; the formats are {formats}")
    if bare[1:]:
        raise click.BadParameter(f"one file takes the report; write FORMAT=FILE, with one of {formats}")
    return pairs


def _split(text: str) -> tuple[str, str]:
    form, equals, file = text.partition("=")
    if not equals or has_separator(form):
        return "", text
    if form not in FORMATS or not file:
        formats = ", ".join(names())
        raise click.BadParameter(f"{text!r} is not FORMAT=FILE; the formats are {formats}; or write ./{text}")
    return form, file


ALWAYS = "FORMAT=FILE"
"""Metavar of the option where the format is always named."""


def _output_option(metavar: str, text: str) -> Callable[[Command], Command]:
    return click.option("-o", "--output", "outputs", multiple=True, callback=_outputs, metavar=metavar, help=text)


REPORTS = _output_option(ALWAYS, "Write the report to FILE in this format; repeatable.")
REPORT = (
    format_option(*names(), text="Format of the report; html is a single page."),
    _output_option(
        "[FORMAT=]FILE", "Write the report to FILE; with FORMAT=, to that file in that format as well. Repeatable."
    ),
    click.option(
        "--explain",
        is_flag=True,
        help="Add the numbers of every layer, the null distributions, and the limits of the method.",
    ),
)


def ready(*forms: str) -> None:
    """Raise OptionError where a package is missing that one of these formats needs, before anything is read."""
    for form in forms:
        renderer(form)


def write_reports(report: Report, reports: Reports) -> None:
    """Write a report into each of these files, in the format beside it; a line says where one has nothing to say."""
    for form, file in reports:
        try:
            write_report(report, form, file)
        except NothingToCompare as error:
            click.echo(f"hf-lineage: {printable(file.name)} was not written: {printable(str(error))}", err=True)


@dataclass(frozen=True)
class Delivery:
    """Formats of a report, and the places to which it goes."""

    form: str
    outputs: Reports
    explain: bool

    @classmethod
    def take(cls, values: dict[str, Any]) -> Delivery:
        """Take the values of the REPORT options out of those of a command; OptionError where a package is missing."""
        delivery = take(cls, values)
        ready(delivery.form, *(form for form, _ in delivery.reports))
        return delivery

    @property
    def output(self) -> Path | None:
        """The file that takes the report in the place of standard output."""
        return next((file for form, file in self.outputs if not form), None)

    @property
    def reports(self) -> Reports:
        """The files that are written besides, each with its format."""
        return tuple(pair for pair in self.outputs if pair[0])

    @property
    def only_one(self) -> str:
        """The first option that is about one model; empty if none was given."""
        given = {"--explain": self.explain, "-o": self.reports}
        return next((name for name, value in given.items() if value), "")

    def refuse_several(self) -> None:
        """Raise OptionError for a format that is about one model, where several are compared."""
        single = [form for form in (self.form, *(form for form, _ in self.reports)) if form not in OF_SEVERAL]
        if single:
            raise OptionError(f"--format {single[0]} is about one model; compare two models with it")

    def deliver(self, report: Report) -> int:
        """Write the report everywhere and return its exit code, or what a policy makes of it."""
        write_reports(report, self.reports)
        write(renderer(self.form)(report, self.explain), self.output, coloured=self.form == "text")
        return int(report.status)
