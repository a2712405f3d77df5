"""What others wrote is text in Markdown, wherever it stands: never markup, a mention, a link or another line."""

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hf_lineage.errors import printable
from hf_lineage.report.formats.markdown import escaped, markdown_table, paragraph
from tests.invoking import lineage
from tests.models import card, tiny_llama
from tests.properties import ANY_TEXT, cases

BEGINNINGS = (
    *("", " ", "\n", "-", "- x", "+ x", "* x", "1. x", "1) x", "12345678. x", "# x", "###### x", "> x", "    x", "---"),
    *("- - -", "\tx", "===", ": x", "```", "~~~ x", "* * *", "___", "<b>", "<!-- x", "[x]: y", "| x |", "1.", "#", "+"),
    "0)",
)
"""What would begin a list, a heading, a quotation, a rule or code if it stood at the beginning of a line."""
TABLE = frozenset({"table_open", "thead_open", "tbody_open", "tr_open", "th_open", "td_open"})
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
    rendered = PARSER.render(markdown_table(("a", "b"), [(left, right)]))
    body = rendered[rendered.index("<tbody>") :]
    cells = f"<td>{shown(left)}</td> <td>{shown(right)}</td>"
    assert " ".join(body.split()) == f"<tbody> <tr> {cells} </tr> </tbody> </table>"


@cases(200)
@given(ANY_TEXT)
def test_nobody_is_mentioned_and_no_address_becomes_a_link(text):
    assert "@" not in escaped(text)
    assert "://" not in escaped(text)
    assert "www." not in escaped(text).lower()


@pytest.mark.parametrize("text", BEGINNINGS)
def test_what_would_begin_a_block_begins_none_within_a_line(text):
    assert PARSER.render(f"Base: {escaped(text)}").count("<") == 2


@cases(500)
@given(st.tuples(st.sampled_from(BEGINNINGS), ANY_TEXT).map("".join) | ANY_TEXT)
def test_any_text_is_one_paragraph_of_what_is_printed(text):
    for before, after in (
        ("", ""),
        ("Above\n\n", "\n\nBelow"),
        ("| a |\n| --- |\n| b |\n\n", ""),
        ("- a\n\n# b\n\n", "\n\n---"),
    ):
        rendered = PARSER.render(f"{before}{paragraph(text)}{after}")
        wanted = f"<p>{shown(text)}</p>" if shown(text) else ""
        expected = f"{PARSER.render(before)}{wanted}{PARSER.render(after)}"
        assert " ".join(rendered.split()) == " ".join(expected.replace("><", "> <").split())


def test_bases_of_a_card_that_would_begin_a_block_are_text_in_a_report(tmp_path):
    names = ["- x", "+ x", "1. x", "1) x", "# x", "> x", "---", "***"]
    model = card(tiny_llama(tmp_path / "model"), names)
    result = lineage("check", model, "--format", "markdown", "--explain")
    assert result.code == 3
    rendered = PARSER.parse(result.out)
    kinds = {token.type for token in rendered if token.nesting >= 0 and token.type not in TABLE}
    assert kinds == {"heading_open", "inline", "paragraph_open"}
    (heading,) = [token for token in rendered if token.type == "heading_open"]
    assert heading.tag == "h3"
    assert f"<p>{', '.join(map(shown, names))}: it is not a model name" in PARSER.render(result.out)
