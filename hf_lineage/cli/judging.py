"""The commands that judge: check and compare."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hf_lineage.cli.shared import (
    BASES,
    EPILOG,
    RECIPE,
    REPORT,
    TEST,
    make_options,
    with_examples,
    with_options,
    write,
)

if TYPE_CHECKING:
    from hf_lineage.checking.api import Report


@dataclass(frozen=True)
class Delivery:
    """Where a report goes, in which formats."""

    form: str
    output: Path | None
    reports: tuple[tuple[str, Path], ...]
    plot: Path | None
    explain: bool

    def ready(self) -> None:
        """Raise OptionError where a package is missing, before anything is read."""
        from hf_lineage.report import renderer

        for form in (self.form, *(form for form, _ in self.reports)):
            renderer(form)

    def deliver(self, report: Report) -> int:
        """Write the report everywhere and return its exit code."""
        from hf_lineage.report import renderer, write_report

        if self.plot is not None:
            from hf_lineage.report.plot import save

            save(report, self.plot)
        for form, file in self.reports:
            write_report(report, form, file)
        write(renderer(self.form)(report, self.explain), self.output, coloured=self.form == "text")
        return int(report.exit_code)


CHECKING = with_examples(
    EPILOG, "hf-lineage check org/model", "hf-lineage check ./folder --base org/base --format json"
)
COMPARING = with_examples(EPILOG, "hf-lineage compare org/base org/model --explain")
DELIVERY = tuple(field.name for field in fields(Delivery))


@click.command(epilog=CHECKING)
@click.argument("model")
@with_options(BASES, *RECIPE, *TEST, *REPORT)
def check(model: str, bases: tuple[str, ...], **settings: Any) -> int:
    """Verify what MODEL declares about its base: one row for each claim."""
    from hf_lineage.checking import api

    delivery = Delivery(**{name: settings.pop(name) for name in DELIVERY})
    delivery.ready()
    return delivery.deliver(api.check(model, bases, make_options(**settings)))


@click.command(epilog=COMPARING)
@click.argument("a")
@click.argument("b")
@with_options(*RECIPE, *TEST, *REPORT)
def compare(a: str, b: str, **settings: Any) -> int:
    """Compare the weights of two models, whatever they declare."""
    from hf_lineage.checking import api

    delivery = Delivery(**{name: settings.pop(name) for name in DELIVERY})
    delivery.ready()
    return delivery.deliver(api.compare(a, b, make_options(**settings)))
