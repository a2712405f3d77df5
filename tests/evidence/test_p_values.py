"""Permutations in sequence: the p-value is at most alpha with probability alpha at most, whatever alpha is."""

import functools
import itertools
import math
import operator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest

from hf_lineage.evidence import p_values
from hf_lineage.evidence.p_values import FEW, MANY, SCALE, Draws, EmpiricalNull, ends, p_value, step_down
from tests.long import first_of

SIGNIFICANCE = 0.001
"""Of the tests of the test: a right implementation fails each once in a thousand seeds, and the seed is fixed."""
FIRST = 99
HIGH = [10.0, *np.random.default_rng(1).normal(size=4999)]
"""The statistics of a path that is related."""
NAN, SMALLEST = math.nan, 1 / (FIRST + 1)


@functools.cache
def outcomes(first, exact=True, at_most=None):
    """The probability of every (drawn, reached) with which a sequence can end if the two models are independent.

    Then the observed score has any rank among all with the same probability, so that of l permutations of which g
    reached it the next one does with probability (g + 1) / (l + 2) (Polya's urn). No draw is simulated: a state is
    how many reached it, its weight a float, or a whole number to be divided by a factorial.
    """
    ended, going, whole = {}, np.array([1 if exact else 1.0], object if exact else float), 1
    for drawn in range(1, (at_most or p_values.most(first)) + 1):
        up = going * (np.arange(len(going)) + 1)
        going = np.append(going * (drawn + 1) - up, 0) + np.append(0, up)
        whole, going = (whole * (drawn + 1), going) if exact else (1, going / (drawn + 1))
        alive = np.flatnonzero(going)
        over = ends(drawn, alive, first) | (drawn == at_most)
        for reached in alive[over].tolist():
            ended[drawn, reached] = Fraction(going[reached], whole) if exact else going[reached]
            going[reached] = 0
        going = going[: alive[~over].max(initial=-1) + 1]
    assert not len(going)
    return ended


def chance(ended, first):
    """Every p-value that a sequence can end in, with the probability of one that is no larger."""
    pairs = sorted((p_value(drawn, reached, first), weight) for (drawn, reached), weight in ended.items())
    total = np.cumsum([weight for _, weight in pairs])
    return {p: up_to for (p, _), up_to in zip(pairs, total, strict=True)}


@pytest.mark.parametrize(("first", "at_most"), [(1, None), (9, None), (19, None), (39, None), (39, 39), (39, 167)])
def test_every_p_value_is_exact_or_larger(first, at_most):
    ended = outcomes(first, at_most=at_most)
    assert sum(ended.values()) == 1
    assert all(up_to <= p * (1 + 1e-12) for p, up_to in chance(ended, first).items())


@pytest.mark.parametrize("analyses", first_of({"K=1": 1, "K=3": 3}))
def test_at_the_default_a_level_is_never_exceeded_and_nearly_used(analyses):
    """With K interim analyses K times as many permutations are drawn, and each analysis has alpha / K."""
    first = analyses * 1000 - 1
    ps, up_to = (np.array(each) for each in zip(*chance(outcomes(first, exact=False), first).items(), strict=True))
    assert (up_to <= ps * (1 + 1e-9)).all()
    for alpha in (0.001, 0.005, 0.01, 0.02, 0.05, 0.2):
        below = up_to[ps <= alpha / analyses * (1 + 1e-12)]
        assert 0.9 < below[-1] / (alpha / analyses) < 1 + 1e-9, alpha


def test_stopping_where_it_is_significant_would_be_caught_and_unrelated_cost_little():
    """The same enumeration, with the p-value that forgets the sequences that ended early."""
    ended = outcomes(19)
    last = p_values.most(19)
    naive = sorted(((reached + (drawn < last)) / (drawn + 1), weight) for (drawn, reached), weight in ended.items())
    total = 0
    worst = max((total := total + weight) / Fraction(p or 1) for p, weight in naive)
    assert worst > 1.05
    ended = outcomes(999, exact=False)
    assert sum(weight for (drawn, _), weight in ended.items() if drawn <= 40) == pytest.approx(0.5, abs=0.02)
    assert sum(drawn * weight for (drawn, _), weight in ended.items()) == pytest.approx(393, abs=1)


ENDS = [
    (FEW, FEW, 1.0),
    (40, FEW, 0.5),
    (999, FEW, 20 / 999),
    (999, 0, 0.001),
    (20_000 - 1, MANY, 200 / 19_999 + 0.001 * 0.95**200),
    (20_000 - 1, 1, 2 / 20_000 + 0.001 * 0.95**2),
    (15_000, MANY, 200 / 15_000),
]


def test_a_sequence_ends_where_the_rule_says_and_goes_on_while_it_could_decide():
    for drawn, reached, p in ENDS:
        assert ends(drawn, reached, 999)
        assert p_value(drawn, reached, 999) == pytest.approx(p, rel=1e-4)
    for drawn, reached in ((1, 1), (998, 0), (998, FEW - 1), (999, 1), (1000, FEW), (19_998, MANY - 1)):
        assert not ends(drawn, reached, 999)


def draws(*columns):
    return {name: Draws(iter([np.array(column)])) for name, column in zip("abcd", columns, strict=False)}


def corrected(drawn):
    """The p-values of some paths together, from those that each has alone."""
    alone = {}
    for path, one in drawn.items():
        some = p_values.sequence(one.observed, one.after(0), FIRST)
        alone[path] = p_value(len(some), p_values.not_below(one.observed, some), FIRST)
    return step_down(drawn, alone, FIRST)


def test_draws_that_run_out_end_a_sequence_and_its_correction():
    """One that would ask for thousands: a few of the first permutations reach the observed score."""
    column = np.r_[1.0, np.full(5, 2.0), np.zeros(FIRST + SCALE - 5)]
    limited = draws(column, column[::-1] + column)
    assert len(p_values.sequence(limited["a"].observed, limited["a"].after(0), FIRST)) == FIRST + SCALE
    assert 5 / FIRST < corrected(limited)["a"] < 1


def correlated(random, paths=3, together=0.8):
    """Endless statistics of some paths that go together, of very unlike sizes and one with a heavy tail."""

    def pieces():
        while True:
            common, noise = random.normal(size=(SCALE, 1)), random.normal(size=(SCALE, paths))
            noise[:, 0] += random.standard_t(3, SCALE)
            yield ((together * common + math.sqrt(1 - together**2) * noise) * 10.0 ** np.arange(paths)).T

    copies = itertools.tee(pieces(), paths)
    return {"abcd"[path]: Draws(map(operator.itemgetter(path), copy)) for path, copy in enumerate(copies)}


@pytest.mark.parametrize("together", first_of([0.8, 0.0, 1.0]))
def test_independent_models_are_significant_along_any_path_as_often_as_alpha_says(together):
    random = np.random.default_rng(round(10 * together))
    trials = 600
    least = np.array([min(corrected(correlated(random, together=together)).values()) for _ in range(trials)])
    for alpha in (0.05, 0.2):
        assert binomtest(int((least <= alpha).sum()), trials, alpha).pvalue > SIGNIFICANCE


@pytest.mark.long
def test_what_the_other_paths_show_does_not_make_an_independent_one_significant():
    """The path that is related is at the least p-value, and the two others have alpha between them."""
    random = np.random.default_rng(5)
    trials, hits = 600, 0
    for _ in range(trials):
        drawn = correlated(random, together=0.3)
        drawn["c"].observed += 1e6
        found = corrected(drawn)
        assert found["c"] == SMALLEST
        hits += min(found["a"], found["b"]) <= 0.05
    assert binomtest(hits, trials, 0.05, alternative="greater").pvalue > SIGNIFICANCE
    assert hits > 0


def test_no_path_is_more_significant_than_a_larger_one_and_equal_ones_cost_nothing():
    assert {*corrected(draws(HIGH, HIGH, HIGH, HIGH)).values()} == {SMALLEST}
    broken = np.array(HIGH)
    broken[SCALE + 2 :: 2] = math.nan
    assert min(corrected(draws(broken.tolist(), HIGH)).values()) > 0.3
    random = np.random.default_rng(9)
    for _ in range(50):
        drawn = correlated(random, paths=4, together=0.5)
        found = corrected(drawn)
        ranked = sorted(drawn, key=lambda path: -drawn[path].standardise(drawn[path].observed))
        assert [found[path] for path in ranked] == sorted(found.values())


@pytest.mark.parametrize("column", [[NAN] * 5000, [NAN, *range(4999)], [1.0, NAN, *range(4998)], [0.0] * 5000])
def test_a_path_without_numbers_or_of_equal_ones_shows_nothing_and_harms_no_other(column):
    found = corrected(draws(column, HIGH))
    assert found["b"] == SMALLEST
    assert found["a"] > 0.9


def test_an_empirical_null_gives_a_threshold_and_a_conformal_p_value():
    null = EmpiricalNull({"a": 0.01, "b": -0.02, "c": 0.03}, "three seeds")
    assert null.threshold == 0.03
    assert [replace(null, observed=score).p_value for score in (0.5, 0.02, -1.0)] == [1 / 4, 2 / 4, 1.0]
    twice = [replace(null, observed=score, tests=2).p_value for score in (0.5, -1.0)]
    assert twice == [2 / 4, 1.0], "after Bonferroni over two paths"


@pytest.mark.parametrize(("models", "alpha", "tests"), [(99, 0.01, 1), (199, 0.01, 2), (4, 0.2, 1), (19, 0.05, 1)])
def test_as_many_models_as_are_asked_for_reach_alpha_and_one_less_does_not(models, alpha, tests):
    def null(count):
        return EmpiricalNull({str(number): 0.0 for number in range(count)}, "", tests, observed=0.5, alpha=alpha)

    assert null(models).objection == ""
    assert null(models).p_value <= alpha * (1 + 1e-12)
    assert null(models - 1).p_value > alpha
    assert null(models - 1).objection == (
        f"{models - 1} independent model(s) cannot show p <= {alpha:g}; that needs at least {models}; name more with "
        "--null"
    )
