"""What others wrote is text in Markdown, wherever it stands: never markup, a mention, a link or another line."""

import html

import pytest
from hypothesis import given
from markdown_it import MarkdownIt

from hf_lineage.errors import printable
from hf_lineage.report.markdown import escaped, table
from tests.properties import ANY_TEXT, cases

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def shown(text):
    """How a browser shows a text: spaces at its ends, and several in a row, are not seen."""
    return " ".join(html.escape(printable(text), quote=False).replace('"', "&quot;").split())


@cases(300)
@given(ANY_TEXT)
def test_any_text_within_a_line_is_shown_as_it_is_printed(text):
    rendered = PARSER.render(f"Before {escaped(text)} after")
    assert " ".join(rendered.split()) == " ".join(f"<p>Before {shown(text)} after</p>".split())


@cases(200)
@given(ANY_TEXT, ANY_TEXT)
def test_any_text_in_a_table_is_one_cell(left, right):
    rendered = PARSER.render(table(("a", "b"), [(left, right)]))
    body = rendered[rendered.index("<tbody>") :]
    cells = f"<td>{shown(left)}</td> <td>{shown(right)}</td>"
    assert " ".join(body.split()) == f"<tbody> <tr> {cells} </tr> </tbody> </table>"


@cases(200)
@given(ANY_TEXT)
def test_nobody_is_mentioned_and_no_address_becomes_a_link(text):
    assert "@" not in escaped(text)
    assert "://" not in escaped(text)
    assert "www." not in escaped(text).lower()


def test_a_table_has_a_rule_under_its_columns():
    assert table(("Base", "Verdict"), [("a|b", "RELATED")]) == "| Base | Verdict |\n| --- | --- |\n| a\\|b | RELATED |"


@pytest.mark.parametrize("text", ["", " ", "\n", "-", "1. x", "> x", "    x", "---", "===", "#", "+", "* * *"])
def test_what_would_begin_a_block_begins_none_within_a_line(text):
    assert PARSER.render(f"Base: {escaped(text)}").count("<") == 2
