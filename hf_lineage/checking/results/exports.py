"""The forms of a result for people who call functions: text, tables and pages; reports are imported when asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

REPORT = "hf_lineage.report"
"""The room that writes reports stands above this one, so its modules are named and not imported."""


class Forms:
    """What a report can be turned into, each as the option `--format` of that name writes it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON report as plain values; `hf_lineage/report/formats/schema.json` describes it."""
        document: dict[str, Any] = import_module(f"{REPORT}.formats.json").document(self)
        return document

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat dictionary for each claim, all with the same keys: `pandas.DataFrame(report.to_rows())`."""
        rows: list[dict[str, Any]] = import_module(f"{REPORT}.formats.flat").rows(self)
        return rows

    def to_json(self) -> str:
        """Return the report as JSON."""
        return self.to_format("json")

    def to_text(self, explain: bool = False) -> str:
        """Return the report as a table of at most 80 columns and sentences; `explain` adds every number."""
        return self.to_format("text", explain)

    def to_markdown(self, explain: bool = False) -> str:
        """Return the report as GitHub-flavoured Markdown; `explain` adds every number."""
        return self.to_format("markdown", explain)

    def to_html(self, explain: bool = True) -> str:
        """Return the report as a page by itself that loads nothing; `explain` adds every number."""
        return self.to_format("html", explain)

    def to_format(self, form: str, explain: bool = False) -> str:
        """Return the report in a format that `--format` knows, such as sarif; OptionError for any other name."""
        text: str = import_module(REPORT).renderer(form)(self, explain)
        return text

    def _repr_html_(self) -> str:
        """Return a table for notebooks, in which untrusted names are escaped."""
        return str(import_module(f"{REPORT}.formats.flat").fragment(self))
