"""The sentences beside controls: what is unlike what a model is named as is said plainly, and nobody is accused."""

import shlex
from dataclasses import replace

import pytest

from hf_lineage.checking.controls import Control
from hf_lineage.cli import cli
from hf_lineage.report.controls.rows import Role, cells, command, lines, outcome, remarks
from tests.pages import HOSTILE
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
