"""Several statistics under the same permutations: the largest is exact, and finds what Holm's correction does not."""

import itertools
import math
import operator

import numpy as np
import pytest
from scipy.stats import binomtest

from hf_lineage.evidence import p_values as permutations
from hf_lineage.evidence.p_values import SCALE, Draws, Scale, not_below, step_down
from tests.long import first_of

SIGNIFICANCE = 0.001
"""Of the tests of the test: a right implementation fails each once in a thousand seeds, and the seed is fixed."""
FIRST = 99


def draws(*columns):
    """The draws of some paths from their statistics, the observed one first."""
    return {name: Draws(iter(column)) for name, column in zip("abcd", columns, strict=False)}


def alone(drawn, first=FIRST):
    """The p-value of every path by itself."""
    sequences = {path: permutations.sequence(one.observed, one.after(0), first) for path, one in drawn.items()}
    return {
        path: permutations.p_value(len(sequence), not_below(drawn[path].observed, np.array(sequence)), first)
        for path, sequence in sequences.items()
    }


def corrected(drawn, first=FIRST):
    return step_down(drawn, alone(drawn, first), first)


def correlated(random, paths=3, together=0.8, lift=0.0, tail=1.0):
    """Endless statistics of some paths that go together, of very unlike sizes and one with a heavy tail."""
    sizes = 10.0 ** np.arange(paths)

    def rows():
        for number in itertools.count():
            common, noise = random.normal(size=(SCALE, 1)), random.normal(size=(SCALE, paths))
            noise[:, 0] += tail * random.standard_t(3, SCALE)
            some = together * common + math.sqrt(1 - together**2) * noise
            some[0] += lift if number == 0 else 0.0
            yield from (some * sizes).tolist()

    copies = enumerate(itertools.tee(rows(), paths))
    return draws(*(map(operator.itemgetter(path), copy) for path, copy in copies))


@pytest.mark.parametrize("together", first_of([0.8, 0.0, 1.0]))
def test_independent_models_are_called_significant_along_any_path_as_often_as_alpha_says(together):
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
        assert found["c"] == 1 / (FIRST + 1)
        hits += min(found["a"], found["b"]) <= 0.05
    assert binomtest(hits, trials, 0.05, alternative="greater").pvalue > SIGNIFICANCE
    assert hits > 0


def test_paths_that_are_one_and_the_same_cost_nothing():
    column = np.random.default_rng(0).normal(size=5000).tolist()
    column[0] = 10.0
    assert set(corrected(draws(column, column, column, column)).values()) == {1 / (FIRST + 1)}


def test_no_path_is_more_significant_than_one_with_a_larger_statistic():
    random = np.random.default_rng(9)
    for _ in range(100):
        drawn = correlated(random, paths=4, together=0.5)
        found = corrected(drawn)
        scales = {
            path: Scale.estimate(np.array([one[number] for number in range(SCALE)])) for path, one in drawn.items()
        }
        ranked = sorted(drawn, key=lambda path: -scales[path].standardised(drawn[path].observed))
        in_order = [found[path] for path in ranked]
        assert in_order == sorted(in_order)


@pytest.mark.parametrize("nan", [[math.nan] * 5000, [math.nan, *range(4999)], [1.0, math.nan, *range(4998)]])
def test_a_path_without_numbers_is_never_significant_and_harms_no_other(nan):
    column = np.random.default_rng(1).normal(size=5000).tolist()
    column[0] = 8.0
    found = corrected(draws(nan, column))
    assert found["a"] > 0.9
    assert found["b"] == 1 / (FIRST + 1)


def test_a_statistic_under_permutations_that_is_no_number_counts_as_reached():
    column = np.random.default_rng(1).normal(size=5000)
    column[0] = 8.0
    broken = column.copy()
    broken[SCALE + 2 :: 2] = math.nan
    assert min(corrected(draws(broken.tolist(), column.tolist())).values()) > 0.3


def test_a_path_on_which_all_permutations_give_the_same_shows_nothing():
    column = np.random.default_rng(1).normal(size=5000).tolist()
    column[0] = 8.0
    assert corrected(draws([0.0] * 5000, column)) == {"a": 1.0, "b": 1 / (FIRST + 1)}
