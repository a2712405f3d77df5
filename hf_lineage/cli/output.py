"""Delivery of reports by commands that judge: formats, the files that they go to, the policy, and their options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hf_lineage.cli.options import Command, error_values, exit_code_of, format_option, has_separator, writable, write
from hf_lineage.errors import NothingToCompare, OptionError, format_error, printable
from hf_lineage.evidence.criteria import FAIL_ON
from hf_lineage.report import FORMATS, NAMES, renderer

if TYPE_CHECKING:
    from hf_lineage.checking.report import Report

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

Reports = tuple[tuple[str, Path], ...]  # formats, each with the file that it goes to; that of --format is empty


def _outputs(context: click.Context, option: click.Parameter, wanted: tuple[str, ...]) -> Reports:
    """Return the formats with their files, one of which may take what is printed; refuse what cannot be written."""
    pairs, formats = list[tuple[str, Path]](), ", ".join(NAMES)
    for text in wanted:
        form, equals, file = text.partition("=")
        if not equals or has_separator(form):
            form, file = "", text
        elif form not in FORMATS or not file:
            raise click.BadParameter(f"{text!r} is not FORMAT=FILE; the formats are {formats}; or write ./{text}")
        pairs.append((form, Path(file)))
    for _, path in pairs:
        writable(context, option, path)
    bare = [path for form, path in pairs if not form]
    if bare and option.metavar == ALWAYS:
        raise click.BadParameter(f"{str(bare[0])!r} is not FORMAT=FILE; the formats are {formats}")
    if bare[1:]:
        raise click.BadParameter(f"one file takes the report; write FORMAT=FILE, with one of {formats}")
    return tuple(pairs)


ALWAYS = "FORMAT=FILE"  # metavar of the option where the format is always named


def _output_option(metavar: str, text: str) -> Callable[[Command], Command]:
    return click.option("-o", "--output", "outputs", multiple=True, callback=_outputs, metavar=metavar, help=text)


REPORTS = _output_option(ALWAYS, "Write the report to FILE in this format; repeatable.")
REPORT = (
    format_option(*NAMES, text="Format of the report; html is a single page."),
    _output_option(
        "[FORMAT=]FILE", "Write the report to FILE; with FORMAT=, to that file in that format as well. Repeatable."
    ),
    click.option(
        "--explain",
        is_flag=True,
        help="Add the numbers of every layer, the null distributions, and the limits of the method.",
    ),
)


def write_reports(report: Report, reports: Reports) -> None:
    """Write a report in full into these files, in the format beside each; a line says where one has nothing to say."""
    from hf_lineage.files.atomic import write_output

    for form, file in reports:
        try:
            write_output(file, renderer(form)(report, True).encode())
        except NothingToCompare as error:
            click.echo(f"hf-lineage: {printable(file.name)} was not written: {printable(str(error))}", err=True)


class Delivery:
    """Format of a report, the file that takes it in place of standard output, and those that are written besides."""

    def __init__(self, values: dict[str, Any]) -> None:
        """Take the values of the REPORT options out of those of a command; OptionError where a package is missing."""
        self.form, outputs, self.explain = (values.pop(name) for name in ("form", "outputs", "explain"))
        self.output: Path | None = next((file for form, file in outputs if not form), None)
        self.reports: Reports = tuple(pair for pair in outputs if pair[0])
        for form in (self.form, *(form for form, _ in self.reports)):
            renderer(form)

    def deliver(self, report: Report) -> int:
        """Write the report everywhere and return its exit code, or what a policy makes of it."""
        write_reports(report, self.reports)
        write(renderer(self.form)(report, self.explain), self.output, coloured=self.form == "text")
        return int(report.status)

    def check_several(self, models: Sequence[str], check: Callable[[str], Report]) -> int:
        """Check models one by one, keep a row or a line of JSON of each, return the worst exit code; or OptionError."""
        from hf_lineage.evidence.verdict import SEVERITY, ExitCode
        from hf_lineage.hub.client import progress

        is_text = self.form == "text"
        other = self.form not in ("text", "json")
        refused = {"--explain": self.explain, "-o": self.reports, f"--format {self.form}": other}
        if single := next((name for name, value in refused.items() if value), ""):
            raise OptionError(f"{single} is about one model; check each model by itself")
        codes, lines, rows, remarks = [ExitCode.VERIFIED], list[str](), list[tuple[str, ...]](), list[str]()
        for name in progress()(models, desc="models", leave=False):
            outcome: Report | Exception
            try:
                outcome = check(name)
            except OptionError:
                raise
            except Exception as error:  # the other models are checked all the same
                outcome = error
            codes.append(ExitCode(exit_code_of(outcome)) if isinstance(outcome, Exception) else outcome.status)
            if is_text:
                rows += _rows(printable(name, 200), outcome)
                remarks += _remarks(printable(name, 200), outcome)
            elif isinstance(outcome, Exception):
                lines.append(dumps({"model": printable(name, 200), **error_values(outcome, format_error(outcome))}))
            else:
                lines.append(dumps(outcome.to_dict()))
            if lines and self.output is None:
                click.echo(lines.pop())
        if is_text or self.output is not None:
            text = _text(rows, remarks) if is_text else "".join(f"{line}\n" for line in lines)
            write(text, self.output, coloured=is_text)
        return int(max(codes, key=SEVERITY.index))


def _rows(model: str, outcome: Report | Exception) -> Iterator[tuple[str, ...]]:
    from hf_lineage.report.wording import line as result_line

    if isinstance(outcome, Exception) or not outcome.rows:
        yield model, "-", "-", "-", "-", "ERROR" if isinstance(outcome, Exception) else outcome.code.label
    else:
        yield from ((model, *result_line(row)) for row in outcome.rows)


def _remarks(model: str, outcome: Report | Exception) -> Iterator[str]:
    """Yield what decides the exit code of one model and is not in its rows: an error, a parent, or the policy."""
    from hf_lineage.report.findings import state_first, state_outcome

    if isinstance(outcome, Exception):
        why = format_error(outcome)
        yield why if why.startswith((model, model.removeprefix("./"))) else f"{model}: {why}"
        return
    yield from (f"{model}: {sentence}" for sentence in state_first(outcome))
    rows = (row for row in outcome.rows if row.waiver or row.expired or row.unmet)
    yield from (f"{model}: {state_outcome(row)}" for row in rows)


def _text(rows: Sequence[tuple[str, ...]], remarks: Sequence[str]) -> str:
    from hf_lineage.report.text import table, wrap

    outcomes = Counter(row[-1] for row in rows)
    counts = ", ".join(f"{count} {label}" for label, count in outcomes.most_common())
    names = ("Model", "Base", "Score", "Inherited", "p", "Verdict")
    sentences = [f"{counts}. Details: check one model with --explain.", *remarks]
    return "\n".join([table(names, rows, (2, 3, 4), width=100).lstrip("\n"), *map(wrap, sentences)]) + "\n"
