"""The numbers behind a verdict: in words what a score was held against, and a row for every pair of layers."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.evidence.nulls.empirical import EmpiricalNull
from hf_lineage.evidence.nulls.permutation import NOT_EXCHANGEABLE, PermutationNull
from hf_lineage.report.words import numbers
from tests.example_evidence import evidence, inheriting

NULL = PermutationNull(0.5, np.arange(1000) / 1000, seed=0, coordinates=64)


def test_98_of_100_permutations_lie_in_the_range():
    low, high = NULL.range
    assert (low, high) == (pytest.approx(0.00999), pytest.approx(0.98901))
    assert np.mean((NULL.scores >= low) & (NULL.scores <= high)) == pytest.approx(0.98)


@pytest.mark.parametrize(
    ("measured", "draw"),
    [
        (evidence(), False),
        (evidence(shares=()), False),
        (evidence(analyses=3), True),
        (evidence(inherited=inheriting(1, 1, 1, 1, error=0.01)), True),
    ],
    ids=["everything read", "no units", "some layers", "some units"],
)
def test_figures_rest_on_a_draw_where_layers_or_units_were_drawn(measured, draw):
    assert numbers.drawn(measured) is draw


def test_what_independent_models_score_is_said_beside_what_the_pair_does():
    assert numbers.independent(evidence(permutation=NULL)) == (
        "on the test coordinates this pair scores 0.500, and independent models of this shape score "
        "0.010 to 0.989 (by permutation)"
    )


def test_what_a_score_was_held_against_is_told_in_sentences():
    measured = evidence(score=0.9, p=0.006, analyses=3, permutation=replace(NULL, observed=2.0))
    measured = replace(measured, comparison=replace(measured.comparison, standard_error=0.0123))
    assert list(numbers.null_sentences(measured)) == [
        "score 0.9000, standard error of the sketch 0.01",
        "permutation null: 2.0000 on 64 test coordinates; under permutation, independent models of this shape score "
        "0.010 to 0.989 in 98 of 100 cases, and 0.0000 to 0.9990 in all 1000, p = 0.000999, 0.006 after "
        "Bonferroni's correction over 3 interim analyses",
    ]


@pytest.mark.parametrize(
    ("part", "by"), [(1.0, "Westfall and Young 1993"), (0.5, "Westfall and Young 1993, Bonferroni")]
)
def test_by_what_several_paths_were_corrected_for_is_told(part, by):
    measured = evidence(p=0.02, permutation=replace(NULL, observed=2.0, by_maximum=0.01, part=part))
    assert numbers.corrections(measured) == f"correction over the paths ({by})"
    assert list(numbers.null_sentences(measured))[-1].endswith(f", 0.02 after correction over the paths ({by})")


def test_a_test_that_may_follow_is_named_where_p_is_corrected_for_it():
    once = replace(evidence(p=0.002), further=1)
    assert numbers.corrections(once) == "Bonferroni's correction over a test of the hidden units that may follow"
    both = replace(once, analyses=3)
    assert numbers.corrections(both).startswith("Bonferroni's correction over 3 interim analyses and a test of the")


KNOWN = EmpiricalNull({"x": 0.1, "y": -0.1, "z": 0.0}, "a\nb", alpha=0.3)


def test_independent_models_that_were_named_are_counted_and_their_source_is_escaped():
    *_, last = numbers.null_sentences(evidence(empirical=KNOWN))
    assert last == "empirical null: 3 independent models reach 0.1; a\\nb, p = 0.25; another null decides"


def test_where_independent_models_decide_the_permutations_say_why_they_do_not():
    permutation = replace(NULL, not_exchangeable=True)
    _, first, last = numbers.null_sentences(evidence(p=0.25, permutation=permutation, empirical=KNOWN))
    assert first.endswith(f"; {NOT_EXCHANGEABLE}")
    assert last == "empirical null: 3 independent models reach 0.1; a\\nb, p = 0.25"


def test_a_row_names_both_layers_their_cosine_what_is_inherited_and_both_concentrations():
    measured = evidence(score=0.5, layers=((2, 3, 5, 7), (10, 11, 12, 13)), shares=(1.0, 0.5, 0.25, 0.0))
    measured = replace(
        measured,
        comparison=replace(
            measured.comparison,
            pairs=(np.arange(4), np.array([1, 0, 2, 3])),
            similarity=np.array([[0, 0.9, 0, 0], [0.8, 0, 0, 0], [0, 0, 0.7, 0], [0, 0, 0, -0.6]]),
            concentration=(np.array([1.0, 2, 3, 4]), np.array([5.0, 6, 7, 8])),
        ),
    )
    assert list(numbers.layer_rows(measured)) == [
        (2, 11, 0.9, 0.5, 1.0, 6.0),
        (3, 10, 0.8, 1.0, 2.0, 5.0),
        (5, 12, 0.7, 0.25, 3.0, 7.0),
        (7, 13, -0.6, 0.0, 4.0, 8.0),
    ]
    assert [line[3] for line in numbers.layer_rows(replace(measured, inherited=None))] == [None] * 4


def test_a_row_is_printed_with_as_many_digits_as_mean_something():
    assert numbers.layer_cells((2, 11, 0.98765, 0.5, 1.005, 6.0)) == ("2", "11", "0.988", "50%", "1.00", "6.00")
    assert numbers.layer_cells((2, 11, -0.0004, None, 0.0, 6.0)) == ("2", "11", "-0.000", "-", "0.00", "6.00")
    assert len(numbers.LAYER_COLUMNS) == 6


def test_layers_that_come_from_others_than_those_of_their_number_are_named_in_runs():
    plain = evidence(layers=((2, 3, 5, 7), (2, 3, 5, 7)), shares=(1.0, 1.0, 0.2, 1.0))
    assert list(numbers.came_from(plain)) == []
    moved = replace(plain, inherited=replace(plain.inherited, partners=(1, 2, 0, 3)))
    assert moved.origins == {2: 3, 3: 5, 7: 7}
    assert list(numbers.came_from(moved)) == ["layer 2 from layer 3, layer 3 from layer 5, layer 7 from layer 7"]
    same = replace(plain, inherited=replace(plain.inherited, partners=(0, 1, 2, 3)))
    assert list(numbers.came_from(same)) == []
