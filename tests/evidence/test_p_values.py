"""Permutations in sequence: the p-value is at most alpha with probability alpha at most, whatever alpha is."""

import functools
from fractions import Fraction

import numpy as np
import pytest

from hf_lineage.evidence.p_values import FEW, MANY, ends, most, p_value
from tests.long import first_of


@functools.cache
def outcomes(first, one):
    """The probability of every (drawn, reached) with which a sequence can end if the two models are independent.

    Then the observed score has any rank among all with the same probability, so that of l permutations of which g
    reached it the next one does with probability (g + 1) / (l + 2) (Polya's urn). No draw is simulated: a state is
    how many reached it, its weight a number of the kind of `one`.
    """
    ended, going = {}, np.array([one])
    for drawn in range(1, most(first) + 1):
        up = going * (np.arange(len(going)) + 1) / (drawn + 1)
        going = np.append(going - up, 0 * one) + np.append(0 * one, up)
        alive = np.flatnonzero(going).tolist()
        # In a long sequence those between the least and the most cannot end before the last permutation.
        for reached in alive if first < 100 or drawn in (first, most(first)) else {alive[0], *alive[-2:]}:
            if ends(drawn, reached, first):
                ended[drawn, reached] = going[reached]
                going[reached] = 0 * one
        going = np.trim_zeros(going, "b")
    assert not len(going)
    return ended


def chance(ended, first):
    """Every p-value that a sequence can end in, with the probability of one that is no larger."""
    pairs = sorted((p_value(drawn, reached, first), weight) for (drawn, reached), weight in ended.items())
    total = np.cumsum([weight for _, weight in pairs])
    return {p: up_to for (p, _), up_to in zip(pairs, total, strict=True)}


@pytest.mark.parametrize("first", [1, 9, 19, 39])
def test_every_p_value_is_exact_or_larger(first):
    ended = outcomes(first, Fraction(1))
    assert sum(ended.values()) == 1
    assert all(up_to <= p * (1 + 1e-12) for p, up_to in chance(ended, first).items())


@pytest.mark.parametrize("analyses", first_of({"K=3": 3, "K=1": 1}))
def test_at_the_default_a_level_is_never_exceeded_and_nearly_used(analyses):
    """With K interim analyses K times as many permutations are drawn, and each analysis has alpha / K."""
    first = analyses * 1000 - 1
    ps, up_to = (np.array(each) for each in zip(*chance(outcomes(first, 1.0), first).items(), strict=True))
    assert (up_to <= ps * (1 + 1e-9)).all()
    for alpha in (0.001, 0.005, 0.01, 0.02, 0.05, 0.2):
        below = up_to[ps <= alpha / analyses * (1 + 1e-12)]
        assert 0.9 < below[-1] / (alpha / analyses) < 1 + 1e-9, alpha


def test_stopping_wherever_it_is_significant_would_be_caught():
    """The same enumeration, with the p-value that forgets the sequences that ended early."""
    ended = outcomes(19, Fraction(1))
    naive = sorted(((reached + (drawn < most(19))) / (drawn + 1), weight) for (drawn, reached), weight in ended.items())
    total = 0
    worst = max((total := total + weight) / Fraction(p or 1) for p, weight in naive)
    assert worst > 1.05


def test_an_unrelated_pair_costs_about_forty_permutations_and_less_than_before_on_average():
    ended = outcomes(999, 1.0)
    assert sum(weight for (drawn, _), weight in ended.items() if drawn <= 40) == pytest.approx(0.5, abs=0.02)
    assert sum(drawn * weight for (drawn, _), weight in ended.items()) == pytest.approx(393, abs=1)


@pytest.mark.parametrize(
    ("drawn", "reached", "p"),
    [
        (FEW, FEW, 1.0),
        (40, FEW, 0.5),
        (999, FEW, 20 / 999),
        (999, 0, 0.001),
        (20_000 - 1, MANY, 200 / 19_999 + 0.001 * 0.95**200),
        (20_000 - 1, 1, 2 / 20_000 + 0.001 * 0.95**2),
        (15_000, MANY, 200 / 15_000),
    ],
)
def test_a_sequence_ends_where_the_rule_says(drawn, reached, p):
    assert ends(drawn, reached, 999)
    assert p_value(drawn, reached, 999) == pytest.approx(p, rel=1e-4)


@pytest.mark.parametrize(
    ("drawn", "reached"), [(1, 1), (998, 0), (998, FEW - 1), (999, 1), (1000, FEW), (19_998, MANY - 1)]
)
def test_a_sequence_goes_on_while_it_could_decide(drawn, reached):
    assert not ends(drawn, reached, 999)
