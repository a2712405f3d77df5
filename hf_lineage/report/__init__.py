"""Reports: each format is a function from a Report to text, found by its name in FORMATS."""

from collections.abc import Callable

from hf_lineage.pipeline import Report
from hf_lineage.report import badge, html, json, markdown, text

FORMATS: dict[str, Callable[[Report, bool], str]] = {
    "text": text.render,
    "json": json.render,
    "markdown": markdown.render,
    "html": html.render,
    "badge": badge.render,
}
"""Name -> render(report, explain); `explain` adds each layer, the null and the limits where they are not there yet."""

__all__ = ["FORMATS"]
