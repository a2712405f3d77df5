"""Several models in one command: each is checked by itself, and one table has a row for every claim."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hf_lineage.cli.kinds import write
from hf_lineage.errors import LineageError, NetworkError, OptionError, printable

if TYPE_CHECKING:
    from hf_lineage.checking import Report

FORMS = ("text", "json")
"""Formats of several reports: a table, and a line of JSON for each model."""
WIDTH = 100
"""Columns of the table, of which names of models and bases take half."""
Failure = tuple[str, LineageError]
"""Name of a model that could not be checked, and why."""


def check_several(
    models: Sequence[str], check: Callable[[str], Report], form: str, output: Path | None, only_one: str
) -> int:
    """Check models one after another, keep a row of each, and return the worst exit code.

    Raise OptionError for an option that is about one model, which `only_one` names, and for other formats.
    """
    from hf_lineage.evidence import SEVERITY, ExitCode

    if only_one or form not in FORMS:
        raise OptionError(f"{only_one or f'--format {form}'} is about one model; check each model by itself")
    codes, lines, rows, failed = [ExitCode.VERIFIED], list[str](), list[tuple[str, ...]](), list[Failure]()
    for name, outcome in _each(models, check):
        if isinstance(outcome, LineageError):
            codes.append(ExitCode.TRY_AGAIN if isinstance(outcome, NetworkError) else ExitCode.ERROR)
            failed.append((name, outcome))
        else:
            codes.append(outcome.status)
        if form == "json":
            lines.append(_as_line(name, outcome))
            if output is None:
                click.echo(lines.pop())
        else:
            rows += _rows(name, outcome)
    if form == "text":
        write(_text(rows, failed), output, coloured=True)
    elif output is not None:
        write("".join(f"{line}\n" for line in lines), output)
    return int(max(codes, key=SEVERITY.index))


def _each(models: Sequence[str], check: Callable[[str], Report]) -> Iterator[tuple[str, Report | LineageError]]:
    """Yield the outcome of every model, with a progress bar on a terminal."""
    from hf_lineage.hub import client

    for name in client.progress()(models, desc="models", leave=False):
        try:
            yield name, check(name)
        except OptionError:
            raise
        except LineageError as error:
            yield name, error


def _as_line(name: str, outcome: Report | LineageError) -> str:
    if isinstance(outcome, LineageError):
        return dumps({"model": printable(name, 200), "error": {"code": outcome.code, "message": str(outcome)}})
    return dumps(outcome.to_dict())


def _rows(name: str, outcome: Report | LineageError) -> Iterator[tuple[str, ...]]:
    """Yield the cells of every claim of one model; one row where it declares nothing, or was not checked."""
    from hf_lineage.report.words import wording

    shown = printable(name, 200)
    if isinstance(outcome, LineageError):
        yield shown, "-", "-", "-", "-", "ERROR"
    elif not outcome.rows:
        yield shown, "-", "-", "-", "-", outcome.code.label
    else:
        yield from ((shown, *wording.line(row)) for row in outcome.rows)


def _text(rows: Sequence[tuple[str, ...]], failed: Sequence[Failure]) -> str:
    """Return the table, the number of claims of every outcome, and why models were not checked."""
    from collections import Counter

    from hf_lineage.report.formats import table, wrapped

    outcomes = Counter(row[-1] for row in rows)
    counts = ", ".join(f"{count} {label}" for label, count in outcomes.most_common())
    names = ("Model", "Base", "Score", "Inherited", "p", "Verdict")
    why = (f"{printable(name, 200)}: {error}" for name, error in failed)
    sentences = [f"{counts}. Details: check one model with --explain.", *why]
    return "\n".join([table(names, rows, (2, 3, 4), width=WIDTH), *map(wrapped, sentences)]) + "\n"
