"""Reports: each format is a function from a Report to text, in a module that is imported when it is used."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hf_lineage.errors import OptionError, installation, printable

if TYPE_CHECKING:
    from hf_lineage.checking.report import Report


class Format(NamedTuple):
    """One format of reports; calling it renders a report."""

    module: str
    function: str = "render"  # takes the report and `explain`, and returns the text

    def __call__(self, report: Report, explain: bool) -> str:
        """Return a report in this format; `explain` adds each layer, the nulls and the limits where they are absent."""
        return str(getattr(import_module(self.module), self.function)(report, explain))


_ALONE = ("text", "json", "markdown", "html", "sarif", "cyclonedx", "intoto")
FORMATS = {form: Format(f"{__name__}.{form}") for form in _ALONE} | {
    "intoto-predicate": Format(f"{__name__}.intoto", "render_predicate"),
    "checksums": Format(f"{__name__}.intoto", "checksums"),
    "github": Format(f"{__name__}.markdown", "render_github"),
}
OF_SEVERAL = ("text", "json", "markdown", "html")  # also of several models compared with one


def names() -> list[str]:
    """Return the names that users are told of: the action alone reads `github`."""
    return [form for form in FORMATS if form != "github"]


def renderer(form: str) -> Format:
    """Return the format of a name; raise OptionError for another name, and where a package that it needs is missing."""
    if form not in FORMATS:
        raise OptionError(f"there is no format {printable(form, 50)!r}; the formats are {', '.join(names())}")
    if form == "cyclonedx" and find_spec("cyclonedx") is None:
        raise OptionError(f"--format {form} needs cyclonedx-python-lib; run {installation('cyclonedx')}")
    return FORMATS[form]


def write_report(report: Report, form: str, file: Path) -> None:
    """Write a report, with all that `explain` adds, into a file; NothingToCompare where a format has nothing to say."""
    from hf_lineage.files.atomic import write_output

    write_output(file, renderer(form)(report, True).encode())
