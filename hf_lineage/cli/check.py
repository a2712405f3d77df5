"""The commands that judge: check and compare, of one model or of several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hf_lineage.cli.options import (
    BASES,
    EPILOG,
    MODEL,
    error_values,
    exit_code_of,
    make_options,
    path_option,
    settings,
    with_examples,
    with_options,
    write,
)
from hf_lineage.cli.output import FAILS, POLICY, REPORT, Delivery, policy_of, under
from hf_lineage.errors import OptionError, format_error, printable

if TYPE_CHECKING:
    from hf_lineage.checking.report import Report
    from hf_lineage.source.options import Options

FORMS = ("text", "json")
"""Formats of several reports: a table, and a line of JSON for each model."""
WIDTH = 100
"""Columns of the table, of which names of models and bases take half."""


def check_several(
    models: Sequence[str], check: Callable[[str], Report], form: str, output: Path | None, only_one: str
) -> int:
    """Check models one after another, keep a row of each, and return the worst exit code.

    Raise OptionError for an option that is about one model, which `only_one` names, and for other formats.
    """
    from hf_lineage.evidence.verdict import SEVERITY, ExitCode

    if only_one or form not in FORMS:
        raise OptionError(f"{only_one or f'--format {form}'} is about one model; check each model by itself")
    codes, lines, rows, remarks = [ExitCode.VERIFIED], list[str](), list[tuple[str, ...]](), list[str]()
    for name, outcome in _each(models, check):
        codes.append(ExitCode(exit_code_of(outcome)) if isinstance(outcome, Exception) else outcome.status)
        if form == "text":
            rows += _rows(name, outcome)
            remarks += _remarks(name, outcome)
        elif output is None:
            click.echo(_as_line(name, outcome))
        else:
            lines.append(f"{_as_line(name, outcome)}\n")
    if form == "text" or output is not None:
        write(_text(rows, remarks) if form == "text" else "".join(lines), output, coloured=form == "text")
    return int(max(codes, key=SEVERITY.index))


def _each(models: Sequence[str], check: Callable[[str], Report]) -> Iterator[tuple[str, Report | Exception]]:
    """Yield the outcome of every model, with a progress bar on a terminal."""
    from hf_lineage.hub.client import progress

    for name in progress()(models, desc="models", leave=False):
        try:
            yield name, check(name)
        except OptionError:
            raise
        except Exception as error:  # the other models are checked all the same
            yield name, error


def _as_line(name: str, outcome: Report | Exception) -> str:
    if isinstance(outcome, Exception):
        return dumps({"model": printable(name, 200), **error_values(outcome, format_error(outcome))})
    return dumps(outcome.to_dict())


def _rows(name: str, outcome: Report | Exception) -> Iterator[tuple[str, ...]]:
    """Yield the cells of every claim of one model; one row where it declares nothing, or was not checked."""
    from hf_lineage.report.wording import line as result_line

    shown = printable(name, 200)
    if isinstance(outcome, Exception):
        yield shown, "-", "-", "-", "-", "ERROR"
    elif not outcome.rows:
        yield shown, "-", "-", "-", "-", outcome.code.label
    else:
        yield from ((shown, *result_line(row)) for row in outcome.rows)


def _remarks(name: str, outcome: Report | Exception) -> Iterator[str]:
    """Yield what decides the exit code of one model and is not in its rows: an error, a parent, or the policy."""
    from hf_lineage.report.findings import state_first, state_outcome

    shown = printable(name, 200)
    if isinstance(outcome, Exception):
        why = format_error(outcome)
        yield why if why.startswith((shown, shown.removeprefix("./"))) else f"{shown}: {why}"
        return
    yield from (f"{shown}: {sentence}" for sentence in state_first(outcome))
    judged = (row for row in outcome.rows if row.waiver or row.expired or row.unmet)
    yield from (f"{shown}: {state_outcome(row)}" for row in judged)


def _text(rows: Sequence[tuple[str, ...]], remarks: Sequence[str]) -> str:
    """Return the table, the number of claims of every outcome, and remarks."""
    from collections import Counter

    from hf_lineage.report.text import table, wrapped

    outcomes = Counter(row[-1] for row in rows)
    counts = ", ".join(f"{count} {label}" for label, count in outcomes.most_common())
    names = ("Model", "Base", "Score", "Inherited", "p", "Verdict")
    sentences = [f"{counts}. Details: check one model with --explain.", *remarks]
    return "\n".join([table(names, rows, (2, 3, 4), width=WIDTH).lstrip("\n"), *map(wrapped, sentences)]) + "\n"


AGAIN = {"models", "bases", "local_hub", "allow_pickle", "run", "as_class", "nulls", "file"}
BESIDE = AGAIN | {"verify", "outputs", "recompute"}
"""The parameters of check that may stand beside it: all that a report does not decide."""


def verified(file: Path, models: Sequence[str], bases: Sequence[str], options: Options) -> tuple[str, int]:
    """Return what differs, a line each, and the exit code: 0 where nothing does, 1 where a word or code does."""
    from hf_lineage.evidence.verdict import ExitCode
    from hf_lineage.report import stored

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


CHECKING = with_examples(
    EPILOG,
    "hf-lineage check org/model",
    "hf-lineage check org/model@v2 --explain",
    "hf-lineage check ./folder --base org/base --format json",
    "hf-lineage check org/model -o html=page.html -o sarif=lineage.sarif",
    "hf-lineage check org/one org/two ./three",
)
COMPARING = with_examples(
    EPILOG,
    "hf-lineage compare org/base org/model --explain",
    "hf-lineage compare ./a ./b --budget full --paths all",
    "hf-lineage compare org/base org/model org/other other/third --format html",
)
NEAREST = click.option(
    "--index",
    "index",
    metavar="INDEX",
    help="Note which models of this index are nearer than the declared base; verdicts do not change. INDEX is a "
    "folder, or org/name on the Hub.",
)

VERIFY = path_option(
    "--verify",
    "FILE",
    "Check the JSON report in FILE, such as lineage/claims.json, again with its settings, and print what differs; 1 "
    "where a word or code does. MODEL is that of FILE if it is left out.",
)


@click.command(epilog=CHECKING)
@click.argument("models", type=MODEL, nargs=-1, metavar="MODEL...")
@with_options(BASES, VERIFY, NEAREST, *settings(), *REPORT)
@with_options(POLICY, FAILS)
def check(
    models: tuple[str, ...],
    bases: tuple[str, ...],
    verify: Path | None,
    index: str | None,
    policy: str | None,
    fail_on: str | None,
    **values: Any,
) -> int:
    """Verify what MODEL declares about its base: one row for each claim. Several models make one table."""
    from hf_lineage.checking.check import check as check_model
    from hf_lineage.source.locate import located

    delivery, options, search = Delivery.take(values), make_options(**values), None
    if verify is not None:
        text, code = verified(verify, models, bases, options)
        write(text, delivery.output)
        return code
    if not models:
        raise click.UsageError("Missing argument 'MODEL...'.")
    if index is not None:
        from hf_lineage.index.nearest import searched

        search = searched(index)

    def governed(model: str) -> Report:
        asked = policy_of(policy, fail_on, lambda: located(model, options))
        report = check_model(model, bases, options)
        return under(search(report) if search else report, asked)

    if models[1:]:
        return check_several(models, governed, delivery.form, delivery.output, delivery.only_one)
    return delivery.deliver(governed(models[0]))


@click.command(epilog=COMPARING)
@click.argument("a", type=MODEL)
@click.argument("models", type=MODEL, nargs=-1, required=True, metavar="B [C ...]")
@with_options(*settings(), *REPORT)
def compare(a: str, models: tuple[str, ...], **values: Any) -> int:
    """Compare the weights of two models, or of several with A, whatever they declare: one row for each."""
    from hf_lineage.checking.check import compare as compare_models

    delivery = Delivery.take(values)
    if models[1:]:
        delivery.refuse_several()
    return delivery.deliver(compare_models(a, models, make_options(**values)))
