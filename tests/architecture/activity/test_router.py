import numpy as np
import pytest
from scipy import integrate

from hf_lineage.architecture.activity.curves import density_at
from hf_lineage.architecture.activity.expected import routed
from hf_lineage.architecture.activity.router import SCORES, Router, counting, listed, mixed_in
from hf_lineage.signature.recipe import random_stream

LOGITS = np.array([-30.0, -2.0, 0.0, 0.5, 3.0, 40.0])


@pytest.mark.parametrize("name", SCORES)
def test_a_score_rises_with_the_logit_and_leads_back_to_it(name):
    scores = SCORES[name]
    found = scores.chosen_by(LOGITS)
    assert np.all(np.diff(found) >= 0)
    assert np.all((found >= scores.least) & (found <= scores.most))
    back = scores.logit(found)
    assert (back - back[2])[:5] == pytest.approx(LOGITS[:5], rel=1e-6)
    assert np.all(scores.mixed_by(LOGITS) >= 0)


def test_beyond_its_ends_a_score_has_an_infinite_logit():
    assert SCORES["sigmoid"].logit(np.array([-0.5, 1.5])).tolist() == [-np.inf, np.inf]
    assert SCORES["sqrtsoftplus"].logit(np.array([-0.5, 0.0])).tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize("name", [name for name, scores in SCORES.items() if scores.alone])
def test_of_two_corrected_experts_each_is_chosen_as_often_as_an_integral_says(name):
    """With one of two chosen, each by a threshold of its own: P(score > t) adds up to one at the threshold."""
    scores, added = SCORES[name], np.array([0.2, 0.0])
    shares = routed(np.ones(2), np.zeros(2), 1, added, scores)
    assert shares.sum() == pytest.approx(1)
    threshold = scores.chosen_by(np.array([-_quantile(shares[0])]))[0] + 0.2
    bound = scores.logit(np.array([threshold]))[0]
    second, _ = integrate.quad(lambda z: float(density_at(np.array(z))), bound, 12)
    assert shares[1] == pytest.approx(second, abs=1e-6)


def _quantile(share):
    from scipy.special import ndtri

    return float(ndtri(share))


RNG = np.random.default_rng(0)


def words():
    return random_stream("tokens of a test")


def router(rows, chosen, **more):
    return Router(rows @ rows.T, np.zeros(len(rows)), chosen, **more)


def odds(rows, chosen, correction=None):
    return routed(np.linalg.norm(rows, axis=1), np.zeros(len(rows)), chosen, correction)


@pytest.mark.parametrize("chosen", [1, 2, 8])
def test_experts_of_a_usual_router_keep_their_odds(chosen):
    rows = RNG.normal(size=(32, 64)) * RNG.uniform(0.1, 0.15, size=(32, 1))
    expected = odds(rows, chosen)
    assert counting(expected, router(rows, chosen), words()) == pytest.approx(expected, abs=1e-3)


def test_corrected_experts_keep_their_odds_too():
    rows, correction = RNG.normal(size=(32, 64)) * 0.1, RNG.normal(size=32) * 0.05
    expected = odds(rows, 4, correction)
    found = counting(expected, router(rows, 4, correction=correction, groups=(4, 2)), words())
    assert np.array_equal(found, expected)


def test_experts_that_one_of_two_always_outbids_count_for_nothing():
    row = RNG.normal(size=64)
    rows = np.stack([row, -row, row / 2, -row / 2])
    expected = odds(rows, 1)
    assert expected[2:].min() > 0.1
    assert counting(expected, router(rows, 1), words()).tolist() == [*expected[:2], 0.0, 0.0]


def test_experts_that_are_chosen_and_mixed_in_with_nothing_count_for_nothing():
    row = RNG.normal(size=64)
    rows = np.stack([1e4 * row, -1e4 * row, 0 * row, 0 * row])
    assert odds(rows, 2)[2:].tolist() == pytest.approx([0.5, 0.5], abs=0.01)
    assert counting(odds(rows, 2), router(rows, 2), words())[2:].max() < 0.01


def test_experts_of_a_group_that_is_never_chosen_count_for_nothing():
    rows, correction = RNG.normal(size=(8, 64)), np.array([10.0, 10, 0, 0, 5, 5, 5, 5])
    expected = odds(rows, 4, correction)
    assert expected[4:].min() > 0.1
    assert counting(expected, router(rows, 4, correction=correction, groups=(2, 1)), words())[4:].tolist() == [0.0] * 4
    assert counting(expected, router(rows, 4, correction=correction), words())[4:].min() > 0.1


def test_shares_do_not_depend_on_coordinates_and_hardly_on_the_order_of_experts():
    rows, order = RNG.normal(size=(16, 64)), RNG.permutation(16)
    turned = rows @ np.linalg.qr(RNG.normal(size=(64, 64)))[0]
    shares = mixed_in(router(rows, 2), words())
    assert shares.sum() == pytest.approx(2)
    assert mixed_in(router(turned, 2), words()) == pytest.approx(shares, abs=1e-3)
    assert mixed_in(router(rows[order], 2), words()) == pytest.approx(shares[order], abs=0.05)


def test_what_is_not_finite_is_left_to_others():
    rows = np.full((2, 4), np.nan)
    assert counting(np.array([0.5, 0.5]), router(rows, 1), words()).tolist() == [0.5, 0.5]


def test_an_expert_that_is_never_chosen_gets_nothing():
    rows = RNG.normal(size=(3, 8))
    shares = mixed_in(Router(rows @ rows.T, np.array([0.0, 0.0, -np.inf]), 2), words())
    assert shares == pytest.approx([1, 1, 0], abs=0.1)


def test_a_table_of_tokens_sends_each_expert_its_part_of_the_vocabulary():
    table = np.array([[0, 1], [0, 1], [1, 2], [1, 1]])
    assert listed(table, 4).tolist() == [0.5, 1.0, 0.25, 0.0]
    rows = RNG.normal(size=(4, 64)) * 0.1
    shares = mixed_in(router(rows, 2, table=table, scores=SCORES["sqrtsoftplus"]), words())
    assert shares == pytest.approx([0.5, 1.25, 0.25, 0.0], abs=0.05)


def test_an_expert_that_a_table_names_and_that_is_mixed_in_with_nothing_counts_for_nothing():
    rows = np.zeros((2, 4))
    shut = Router(rows @ rows.T, np.array([0.0, -200.0]), 2, table=np.array([[0, 1]]), scores=SCORES["sigmoid"])
    assert counting(np.ones(2), shut, words())[1] < 1e-50


def test_experts_corrected_by_shares_of_one_count_as_they_are_chosen_and_mixed_in():
    rows, by_shares = RNG.normal(size=(16, 64)) * 0.1, {"correction": np.zeros(16), "scores": SCORES["softmax"]}
    usual = counting(np.ones(16), router(rows, 4, **by_shares), words())
    assert usual == pytest.approx(np.ones(16), abs=0.5)
    assert mixed_in(router(rows, 4, **by_shares), words()).sum() == pytest.approx(4)
    loud = np.vstack([rows[:8], np.tile(1e6 * rows[8], (8, 1)) * np.array([1, -1] * 4)[:, None]])
    assert counting(np.ones(16), router(loud, 4, **by_shares), words())[:8].max() < 1e-3


def test_experts_that_are_chosen_although_nearly_nothing_goes_to_them_count_for_nothing():
    """What goes to the others is not divided among them where a class does not divide by the sum."""
    rows, chosen = np.zeros((4, 8)), np.array([0.0, 0.0, 10.0, 10.0])
    shut = Router(rows @ rows.T, np.array([90.0, 90, 0, 0]), 2, correction=chosen, scores=SCORES["softmax"])
    assert counting(np.ones(4), shut, words()).max() < 1e-3


def test_experts_corrected_by_their_logits_are_chosen_by_the_sum():
    rows, correction = RNG.normal(size=(4, 64)) * 0.1, np.array([0.0, 0.0, -100.0, -100.0])
    corrected = router(rows, 2, correction=correction, scores=SCORES["logits"])
    found = counting(odds(rows, 2, correction), corrected, words())
    assert found.tolist() == [1.0, 1.0, 0.0, 0.0]
