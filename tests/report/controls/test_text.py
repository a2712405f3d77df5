"""Text, Markdown and JSON of a pair beside controls: the same outcome in all, and nothing that leaves its place."""

import json

import pytest
from markdown_it import MarkdownIt

from hf_lineage.errors import OptionError
from hf_lineage.report import BESIDE, beside
from hf_lineage.report.controls.text import render_json, render_markdown, text
from tests.pages import BENIGN, HOSTILE
from tests.report.controlled import controlled, hostile


def test_the_text_has_a_line_for_every_model_and_no_line_over_80_columns():
    shown = text(controlled())
    assert shown.startswith("org/model and org/base, beside 4 controls\n")
    rows = [line.split() for line in shown.splitlines() if line.startswith(" ") and " mlp " in line]
    assert [(row[0], row[-1]) for row in rows] == [
        ("org/model", "RELATED"),
        ("free/a", "UNRELATED"),
        ("free/b", "UNRELATED"),
        ("kin/a", "RELATED"),
    ]
    assert "free/gone is gone" in " ".join(shown.split())
    for explain in (False, True):
        assert all(len(line) <= 80 for line in text(hostile(HOSTILE), explain).splitlines())
    assert len(text(controlled(), explain=True)) > len(shown) + 500


def test_programs_get_the_whole_report_on_every_model():
    document = json.loads(render_json(controlled()))
    assert (document["base"], document["model"], document["exit_code"]) == ("org/base", "org/model", 0)
    assert [one["named_as"] for one in document["controls"]] == ["independent"] * 3 + ["relative"]
    assert [one["declares"] for one in document["controls"]] == [None, "org/base", None, None]
    reports = [document["pair"], *(one["report"] for one in document["controls"])]
    outcomes = [report["claims"][0]["verdict"] for report in reports]
    assert outcomes == ["RELATED", "UNRELATED", "UNRELATED", "UNVERIFIABLE", "RELATED"]
    assert document["command"].startswith("hf-lineage compare org/base org/model --controls free/a")
    assert render_json(hostile(HOSTILE)).isascii()


def test_markdown_escapes_what_strangers_choose():
    parser = MarkdownIt("commonmark").enable("table")
    shapes = [
        [(token.type, len(token.children or ())) for token in parser.parse(render_markdown(hostile(name)))]
        for name in (HOSTILE, BENIGN)
    ]
    assert shapes[0] == shapes[1]


def test_markdown_has_the_table_and_what_would_have_been_said():
    shown = render_markdown(controlled(), explain=True)
    assert shown.startswith("### org/model and org/base, beside 4 controls\n")
    assert "| free/a | independent | mlp | 0.0" in shown
    assert "\n- free/a, if it declared org/base as its base: UNRELATED" in shown


@pytest.mark.parametrize("form", BESIDE)
def test_every_format_of_the_table_exists(form):
    assert "org/model" in beside(form)(controlled(), True)


def test_a_format_of_one_pair_is_refused():
    with pytest.raises(OptionError, match="sarif shows one pair; with controls use text, json, markdown, html"):
        beside("sarif")
