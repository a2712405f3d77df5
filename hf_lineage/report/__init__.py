"""Reports: each format is a function from a Report to text, in a module that is imported when it is used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hf_lineage.errors import OptionError, installation, printable

if TYPE_CHECKING:
    from hf_lineage.checking.report import Report


def _late(module: str, function: str = "render") -> Callable[[Report, bool], str]:
    return lambda report, explain: str(getattr(import_module(f"{__name__}.{module}"), function)(report, explain))


FORMATS = {  # name -> the function; `explain` adds each layer, the nulls and the limits where they are absent
    **{form: _late(form) for form in ("text", "json", "markdown", "html", "sarif", "cyclonedx")},
    "intoto": _late("json", "render_statement"),
    "intoto-predicate": _late("json", "render_predicate"),
    "checksums": _late("json", "checksums"),
    "github": _late("markdown", "render_github"),
}
NAMES = [form for form in FORMATS if form != "github"]  # of which users are told: the action alone reads `github`
OF_SEVERAL = ("text", "json", "markdown", "html")  # also of several models compared with one


def renderer(form: str) -> Callable[[Report, bool], str]:
    """Return the format of a name; raise OptionError for another name, and where a package that it needs is missing."""
    if form not in FORMATS:
        raise OptionError(f"there is no format {printable(form, 50)!r}; the formats are {', '.join(NAMES)}")
    if form == "cyclonedx" and find_spec("cyclonedx") is None:
        raise OptionError(f"--format {form} needs cyclonedx-python-lib; run {installation('cyclonedx')}")
    return FORMATS[form]
