"""Several models in one command: each is checked by itself, and one table has a row for every claim."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hf_lineage.cli.kinds import write
from hf_lineage.cli.shared import error_values, exit_code_of
from hf_lineage.errors import OptionError, printable, told

if TYPE_CHECKING:
    from hf_lineage.checking import Report

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
    from hf_lineage.evidence import SEVERITY, ExitCode

    if only_one or form not in FORMS:
        raise OptionError(f"{only_one or f'--format {form}'} is about one model; check each model by itself")
    codes, lines, rows, remarks = [ExitCode.VERIFIED], list[str](), list[tuple[str, ...]](), list[str]()
    for name, outcome in _each(models, check):
        if isinstance(outcome, Exception):
            codes.append(ExitCode(exit_code_of(outcome)))
        else:
            codes.append(outcome.status)
        if form == "json":
            lines.append(_as_line(name, outcome))
            if output is None:
                click.echo(lines.pop())
        else:
            rows += _rows(name, outcome)
            remarks += _remarks(name, outcome)
    if form == "text":
        write(_text(rows, remarks), output, coloured=True)
    elif output is not None:
        write("".join(f"{line}\n" for line in lines), output)
    return int(max(codes, key=SEVERITY.index))


def _each(models: Sequence[str], check: Callable[[str], Report]) -> Iterator[tuple[str, Report | Exception]]:
    """Yield the outcome of every model, with a progress bar on a terminal."""
    from hf_lineage.hub import client

    for name in client.progress()(models, desc="models", leave=False):
        try:
            yield name, check(name)
        except OptionError:
            raise
        except Exception as error:  # the other models are checked all the same
            yield name, error


def _as_line(name: str, outcome: Report | Exception) -> str:
    if isinstance(outcome, Exception):
        return dumps({"model": printable(name, 200), **error_values(outcome, told(outcome))})
    return dumps(outcome.to_dict())


def _rows(name: str, outcome: Report | Exception) -> Iterator[tuple[str, ...]]:
    """Yield the cells of every claim of one model; one row where it declares nothing, or was not checked."""
    from hf_lineage.report.words import wording

    shown = printable(name, 200)
    if isinstance(outcome, Exception):
        yield shown, "-", "-", "-", "-", "ERROR"
    elif not outcome.rows:
        yield shown, "-", "-", "-", "-", outcome.code.label
    else:
        yield from ((shown, *wording.line(row)) for row in outcome.rows)


def _remarks(name: str, outcome: Report | Exception) -> Iterator[str]:
    """Yield what decides the exit code of one model and is not in its rows: an error, a parent, or the policy."""
    from hf_lineage.report.findings import state_first, state_outcome

    shown = printable(name, 200)
    if isinstance(outcome, Exception):
        why = told(outcome)
        yield why if why.startswith((shown, shown.removeprefix("./"))) else f"{shown}: {why}"
        return
    yield from (f"{shown}: {sentence}" for sentence in state_first(outcome))
    judged = (row for row in outcome.rows if row.waiver or row.expired or row.unmet)
    yield from (f"{shown}: {state_outcome(row)}" for row in judged)


def _text(rows: Sequence[tuple[str, ...]], remarks: Sequence[str]) -> str:
    """Return the table, the number of claims of every outcome, and remarks."""
    from collections import Counter

    from hf_lineage.report.formats import table, wrapped

    outcomes = Counter(row[-1] for row in rows)
    counts = ", ".join(f"{count} {label}" for label, count in outcomes.most_common())
    names = ("Model", "Base", "Score", "Inherited", "p", "Verdict")
    sentences = [f"{counts}. Details: check one model with --explain.", *remarks]
    return "\n".join([table(names, rows, (2, 3, 4), width=WIDTH).lstrip("\n"), *map(wrapped, sentences)]) + "\n"
