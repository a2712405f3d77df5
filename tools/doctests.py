"""Docstrings as mkdocstrings shows them: their examples as blocks of code, and comments on the lines of fields."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
"""From a prompt to the next empty line."""


class Doctests(griffe.Extension):
    """Fences the doctests of every docstring: Markdown takes a prompt for a quotation."""

    def on_attribute_instance(self, *, attr: Any, **_: Any) -> None:
        """Take the comment on the line of a field or constant as its docstring."""
        comment = attr.lines[-1].partition("  # ")[2] if attr.docstring is None and attr.lines else ""
        if comment:
            attr.docstring = griffe.Docstring(comment, parent=attr, lineno=attr.lineno)

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Fence those of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return a docstring with its doctests as fenced blocks."""
    return EXAMPLE.sub(lambda example: f"\n```pycon\n{example[0]}\n```", text)
