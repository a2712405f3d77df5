"""Reports: each format is a function from a Report to text, found by its name in FORMATS."""

from collections.abc import Callable
from importlib.util import find_spec

from hf_lineage.errors import OptionError
from hf_lineage.pipeline import Report
from hf_lineage.report import badge, cyclonedx, html, intoto, json, junit, markdown, sarif, text

Render = Callable[[Report, bool], str]

FORMATS: dict[str, Render] = {
    "text": text.render,
    "json": json.render,
    "markdown": markdown.render,
    "html": html.render,
    "badge": badge.render,
    "sarif": sarif.render,
    "junit": junit.render,
    "cyclonedx": cyclonedx.render,
    "intoto": intoto.render,
}
"""Name -> render(report, explain); `explain` adds each layer, the null and the limits where they are not there yet."""

EXTRAS = {"cyclonedx": ("cyclonedx", "cyclonedx-python-lib")}
"""Format -> the module it needs and the package that brings it; the extra of hf-lineage is called like the format."""


def renderer(form: str) -> Render:
    """Return what renders a format; raise OptionError where a package that it needs is missing."""
    module, package = EXTRAS.get(form, ("hf_lineage", ""))
    if find_spec(module) is None:
        raise OptionError(f"--format {form} needs {package}; run pip install 'hf-lineage[{form}]'")
    return FORMATS[form]


__all__ = ["EXTRAS", "FORMATS", "Render", "renderer"]
