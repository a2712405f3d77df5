"""The sentences beside controls: what is unlike what a model is named as is said plainly, and nobody is accused.

Text, Markdown and JSON of a pair beside controls: the same outcome in all, and nothing that leaves its place.
"""

import json
import shlex
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from hf_lineage.checking.controls import Control
from hf_lineage.cli import cli
from hf_lineage.errors import OptionError
from hf_lineage.report import BESIDE, beside
from hf_lineage.report.controls.rows import (
    Role,
    cells,
    command,
    lines,
    outcome,
    remarks,
    render_json,
    render_markdown,
    text,
)
from tests.pages import BENIGN, HOSTILE
from tests.report.controlled import compared, controlled, hostile, unread, unrelated


def said(*controls, **others):
    return list(remarks(controlled(*controls, **others)))


def test_the_pair_comes_first_and_every_control_as_what_it_is_named():
    drawn = lines(controlled())
    assert [(line.name, line.role) for line in drawn] == [
        ("org/model", Role.PAIR),
        ("free/a", Role.INDEPENDENT),
        ("free/b", Role.INDEPENDENT),
        ("free/gone", Role.INDEPENDENT),
        ("kin/a", Role.RELATIVE),
    ]
    assert [next(cells(line))[:2] for line in drawn[:2]] == [("org/model", "the pair"), ("free/a", "independent")]


def test_what_would_have_been_said_of_a_control_is_said():
    pair, free, _, gone, _ = lines(controlled())
    assert outcome(pair).startswith("org/model and org/base: RELATED (score 0.970")
    assert outcome(free).startswith("free/a, if it declared org/base as its base: UNRELATED (score 0.0")
    assert outcome(gone) == "free/gone, if it declared org/base as its base: UNVERIFIABLE: free/gone is gone"


def test_where_everything_is_as_it_is_named_that_is_said_with_what_chance_allows():
    first, second, highest, declared, unjudged = said()
    assert first == (
        "0 of 2 independent models that were judged come out RELATED; alpha 0.01 lets 0.02 of 2 do so by chance"
    )
    assert second == "1 of 1 relatives that were judged come out RELATED"
    assert highest.startswith("Along mlp the highest score of an independent model is 0.0")
    assert highest.endswith("; org/model has 0.970")
    assert declared == "free/b is named as independent, and declares org/base as its base"
    assert unjudged == "Not judged, so no evidence for either side: free/gone"


def test_an_independent_model_that_comes_out_related_is_named_before_all_else():
    first, *_ = said(Control(unrelated("free/a"), True), Control(compared("free/b", seed=9, score=0.5), True))
    assert first == (
        "free/b is named as independent of org/base and comes out RELATED. Either the two share ancestry, or this is "
        "a false result: alpha 0.01 lets 0.02 of 2 do so by chance. Until that is explained it is not a control, and "
        "the result for org/model needs the same caution"
    )
    assert not any("0 of" in sentence for sentence in said(Control(compared("free/b", seed=9), True)))


def test_a_relative_that_comes_out_unrelated_is_named():
    first, *_ = said(Control(unrelated("kin/a"), False))
    assert first.startswith(
        "kin/a is named as a relative of org/base and comes out UNRELATED. Either it is not a relative, or "
    )


def test_copies_are_told_by_their_numbers():
    (copied,) = [one for one in said(Control(compared("kin/a"), False)) if "last digit" in one]
    assert copied == "kin/a has the scores of org/model to the last digit, as a copy of its weights has"
    assert not [one for one in said() if "last digit" in one]


def test_a_pair_that_cannot_be_compared_has_no_highest_score():
    assert not [one for one in said(Control(unrelated("a"), True), pair=unread("org/model")) if "highest" in one]


def test_the_command_makes_the_same_comparison_again():
    pair = compared(commit="c0ffee")
    pair = replace(pair, rows=(replace(pair.rows[0], base_commit="bead"),))
    words = shlex.split(command(controlled(pair=pair)))
    assert words[:8] == [
        *("hf-lineage", "compare", "org/base@bead", "org/model@c0ffee"),
        *("--controls", "free/a", "free/b", "free/gone"),
    ]
    context = cli.get_command(None, "compare").make_context("compare", words[2:])
    assert context.params["independent"] == ("free/a", "free/b", "free/gone")
    assert (context.params["relatives"], context.params["settings"]) == (("kin/a",), {"order_seed": 1})


@pytest.mark.parametrize("sentence", [*said(), *said(Control(compared("x", seed=9), True))])
def test_no_sentence_accuses_anybody(sentence):
    assert not any(word in sentence.casefold() for word in ("stole", "copied", "fraud", "liar", "fake", "lie "))


def test_hostile_names_stay_on_one_line():
    assert all(sentence.isprintable() for sentence in remarks(hostile(HOSTILE)))
    assert command(hostile(HOSTILE)).isprintable()


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
