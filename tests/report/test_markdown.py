"""Markdown in which untrusted text is text, and the outputs for the runner of the action."""

import html
import json

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hf_lineage.errors import printable
from hf_lineage.report import FORMATS
from hf_lineage.report.markdown import escape_line, paragraph, table
from tests.pages import HOSTILE, hostile_report, measured, report, row
from tests.properties import ANY_TEXT, cases

BEGINNINGS = (
    *("", " ", "\n", "-", "- x", "+ x", "* x", "1. x", "1) x", "12345678. x", "# x", "###### x", "> x", "    x", "---"),
    *("- - -", "\tx", "===", ": x", "```", "~~~ x", "* * *", "___", "<b>", "<!-- x", "[x]: y", "| x |", "1.", "#", "+"),
    "0)",
)
"""What would begin a list, a heading, a quotation, a rule or code if it stood at the beginning of a line."""
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def shown(text):
    """How a browser shows a text: spaces at its ends, and several in a row, are not seen."""
    return " ".join(html.escape(printable(text), quote=False).replace('"', "&quot;").split())


@cases(300)
@given(ANY_TEXT)
def test_any_text_within_a_line_is_shown_as_printed_and_mentions_or_links_nothing(text):
    rendered = PARSER.render(f"Before {escape_line(text)} after")
    assert " ".join(rendered.split()) == " ".join(f"<p>Before {shown(text)} after</p>".split())
    assert not any(mark in escape_line(text).lower() for mark in ("@", "://", "www."))


@cases(200)
@given(ANY_TEXT, ANY_TEXT)
def test_any_text_in_a_table_is_one_cell(left, right):
    rendered = PARSER.render(table(("a", "b"), [(left, right)]))
    body = rendered[rendered.index("<tbody>") :]
    cells = f"<td>{shown(left)}</td> <td>{shown(right)}</td>"
    assert " ".join(body.split()) == f"<tbody> <tr> {cells} </tr> </tbody> </table>"


@cases(300)
@given(st.tuples(st.sampled_from(BEGINNINGS), ANY_TEXT).map("".join) | ANY_TEXT)
def test_any_text_is_one_paragraph_of_what_is_printed(text):
    around = (("", ""), ("Above\n\n", "\n\nBelow"), ("| a |\n| --- |\n| b |\n\n", ""), ("- a\n\n# b\n\n", "\n\n---"))
    for before, after in around:
        rendered = PARSER.render(f"{before}{paragraph(text)}{after}")
        wanted = f"<p>{shown(text)}</p>" if shown(text) else ""
        expected = f"{PARSER.render(before)}{wanted}{PARSER.render(after)}"
        assert " ".join(rendered.split()) == " ".join(expected.replace("><", "> <").split())


def test_the_outputs_are_those_of_the_claim_that_decides_and_empty_where_none_is():
    def rendered(found):
        return json.loads(FORMATS["github"](found, False))

    related, unrelated = row(mlp=measured()), row(mlp=measured(score=0.01, p=0.4))
    both, alone, empty = rendered(report(related, unrelated)), rendered(report(related)), rendered(report())
    figures = [both["outputs"][name] for name in ("verdict", "code", "verified", "score", "p-value")]
    assert (both["exit_code"], figures) == (1, ["UNRELATED", "unrelated", "false", "0.01", "0.4"])
    assert (alone["exit_code"], alone["outputs"]["verified"]) == (0, "true")
    assert (empty["exit_code"], empty["outputs"]["code"], empty["outputs"]["verified"]) == (3, "undeclared", "false")
    assert {empty["outputs"][name] for name in ("score", "p-value")} == {""}
    hostile = rendered(hostile_report(HOSTILE))
    assert (HOSTILE in hostile["message"], "\n" in hostile["title"] + hostile["message"]) == (False, False)
