"""The commands that judge: check and compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hf_lineage.cli.shared import BASES, EPILOG, RECIPE, REPORT, TEST, make_options, with_options, write

if TYPE_CHECKING:
    from hf_lineage.pipeline import Report


@click.command(epilog=EPILOG)
@click.argument("model")
@with_options(BASES, *RECIPE, *TEST, *REPORT)
def check(model: str, bases: tuple[str, ...], form: str, output: Path | None, explain: bool, **settings: Any) -> int:
    """Verify what MODEL declares about its base: one row for each claim."""
    from hf_lineage import pipeline

    return _deliver(pipeline.check(model, bases, make_options(**settings)), form, output, explain)


@click.command(epilog=EPILOG)
@click.argument("a")
@click.argument("b")
@with_options(*RECIPE, *TEST, *REPORT)
def compare(a: str, b: str, form: str, output: Path | None, explain: bool, **settings: Any) -> int:
    """Compare two models, whatever they declare."""
    from hf_lineage import pipeline

    return _deliver(pipeline.compare(a, b, make_options(**settings)), form, output, explain)


def _deliver(report: Report, form: str, output: Path | None, explain: bool) -> int:
    from hf_lineage.report import FORMATS

    write(FORMATS[form](report, explain), output, coloured=form == "text")
    return int(report.exit_code)
