from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest, kstest

from hf_lineage.evidence import unit_order
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.unit_comparison import CALIBRATED, LARGEST, PAIRS, RESIDUAL, Coordinates, judge_units, through
from tests.example_evidence import inheriting
from tests.long import first_of
from tests.unit_rows import beside, changed, compared, model, moved, opposite, rows, shuffled, unit

BASE = model(1)
CHILD = changed(BASE, moved)
IN_ORDER, SHUFFLED, INDEPENDENT = (compared(BASE, one) for one in (CHILD, changed(CHILD, shuffled), model(2)))
LEVELS = 0.01, 0.05, 0.5


def test_descendants_have_the_units_of_their_base_in_order_also_if_pruned_or_sorted():
    pruned = compared(BASE, changed(CHILD, lambda layer, _: layer.select(slice(None, None, 2))))
    shares = [one.inherited.share for one in (IN_ORDER, pruned, SHUFFLED, INDEPENDENT)]
    assert shares == pytest.approx([1, 1, 1, 0])
    assert (IN_ORDER.p_value, pruned.p_value) == (1 / 200, 1 / 200)
    assert min(SHUFFLED.p_value, INDEPENDENT.p_value) > 0.05
    assert (IN_ORDER.partners, INDEPENDENT.least, INDEPENDENT.remains > 0.8) == ((0, 1, 2, 3), 0, True)
    assert IN_ORDER.order.z["places"] > 15
    assert IN_ORDER.order.z["ranks"] > 10
    assert list(pruned.order.observed) == ["ranks"]
    base = changed(BASE, lambda layer, random: by_size(layer, lambda one: one.weight))
    child = changed(base, moved)
    pruned = changed(child, lambda layer, random: layer.select(np.arange(70)))
    assert [compared(base, one).p_value for one in (child, pruned)] == [1 / 200] * 2


def test_layers_taken_out_leave_partners_and_copies_of_one_unit_have_no_order():
    kept = {number: BASE[layer] for number, layer in enumerate((0, 3))}
    framed = compared(BASE, changed(kept, moved))
    assert (framed.partners, framed.inherited.share) == ((0, 3), pytest.approx(1))
    base = model(1, layers=6)
    read = compared(base, changed(base, moved))
    assert read.least == pytest.approx(1)
    unread = type(read)(**{**vars(read), "depth": 32})
    assert 0.5 < unread.least < 0.6
    one = changed(BASE, lambda layer, _: layer.select(np.repeat(np.arange(4), 24)))
    framed = compared(one, {number: layer.select(np.arange(95)) for number, layer in one.items()})
    assert (framed.order, framed.p_value) == (None, None)


def by_size(layer, key):
    """A layer whose large units lean on a direction that all models share, in the order of their sizes."""
    sizes = layer.sizes**2
    shared = [unit(side + sizes.prod(axis=0)[:, None] / 200) for side in (layer.inner, layer.outer)]
    large = replace(layer, inner=shared[0], outer=shared[1], sizes=sizes, weight=sizes.prod(axis=0))
    return large.select(np.argsort(-key(large)))


@pytest.mark.few(1)
@pytest.mark.parametrize("key", [lambda layer: layer.weight, lambda layer: -layer.sizes[0]], ids=["writes", "reads"])
@pytest.mark.parametrize("pairs", first_of([100, 300]))
def test_units_in_the_order_of_their_sizes_show_nothing_between_independent_models(monkeypatch, key, pairs):
    def p_values(pairs):
        models = ({0: by_size(rows(seed), key)} for seed in range(2 * pairs))
        return np.array([compared(one, other, first=99).p_value for one, other in zip(models, models, strict=True)])

    within = p_values(pairs)
    print(f"{pairs} pairs: KS {kstest(within, 'uniform').pvalue:.2g}", [(p, (within <= p).mean()) for p in LEVELS])
    assert kstest(within[:100], "uniform").pvalue > 0.01
    for level in LEVELS[:2]:
        assert binomtest(int(np.sum(within <= level)), len(within), level, alternative="greater").pvalue > 0.01
    monkeypatch.setattr(unit_order, "LEAST", 1000)
    assert np.mean(p_values(50) <= 0.05) > 0.15


def test_independent_models_reject_as_often_as_alpha_says_and_are_at_chance():
    tries = [compared(model(2 * seed, 2, units=40), model(2 * seed + 1, 2, units=40), first=99) for seed in range(200)]
    assert 2 <= sum(framed.p_value <= 0.05 for framed in tries) <= 20
    assert max(framed.inherited.share for framed in tries) < 0.1
    own = model(2)
    assert (INDEPENDENT.at_chance, IN_ORDER.at_chance) == (True, False)
    assert not compared(BASE, {number: beside(own[number], BASE[number], 0.2) for number in own}).at_chance
    cancelled = {number: beside(own[number], opposite(own[number])) for number in own}
    assert not compared(BASE, cancelled).at_chance


def test_layers_that_copy_each_other_are_permuted_alike():
    copied = [{0: rows(seed), 1: moved(rows(seed), np.random.default_rng(seed), 0.1)} for seed in range(80)]
    pairs = zip(copied[::2], copied[1::2], strict=True)
    p_values = [compared(one, other, first=99).p_value for one, other in pairs]
    assert sum(p <= 0.05 for p in p_values) <= 6


def judged(framed, shares=()):
    verdict = judge_units(replace(framed, inherited=inheriting(*shares)) if shares else framed, Criteria())
    return verdict.label, verdict.verified, int(verdict.exit_code)


VERDICTS = [
    (IN_ORDER, (1, 1, 1, 1), ("VERIFIED inherited", True, 0)),
    (IN_ORDER, (1, 1, 0, 0), ("RELATED part", False, 3)),
    (IN_ORDER, (0.2, 0.2, 0.1, 0.1), ("RELATED part", False, 3)),
    (IN_ORDER, (0.1, 0.0, 0.0, 0.0), ("UNDECIDED inconclusive", False, 3)),
    (IN_ORDER, (0.0, 0.0, 0.0, 0.0), ("UNDECIDED inconclusive", False, 3)),
    (SHUFFLED, (1, 1, 1, 1), ("RELATED calibrated", False, 3)),
    (SHUFFLED, (1, 1, 0, 0), ("UNDECIDED inconclusive", False, 3)),
    (SHUFFLED, (CALIBRATED, 0, 0, 0), ("UNRELATED", False, 1)),
    (INDEPENDENT, (0, 0, 0, 0), ("UNRELATED", False, 1)),
    (replace(INDEPENDENT, remains=0.3), (0, 0, 0, 0), ("UNDECIDED inconclusive", False, 3)),
    (replace(IN_ORDER, remains=0.3), (1, 1, 1, 1), ("VERIFIED inherited", True, 0)),
]
"""The last two: units that undo each other do not make a model unrelated."""


@pytest.mark.parametrize(("framed", "shares", "expected"), VERDICTS)
def test_the_verdict_by_order_and_share(framed, shares, expected):
    assert judged(framed, shares) == expected


def test_calibrated_evidence_counts_where_it_is_accepted_and_is_none_without_tokens():
    verdict = judge_units(SHUFFLED, Criteria(accept=("calibrated",)))
    assert (verdict.label, int(verdict.exit_code)) == ("RELATED calibrated", 0)
    assert f"none of {PAIRS:,} pairs of independent models has more than {LARGEST:.0%}" in verdict.reason
    framed = replace(SHUFFLED, coordinates=Coordinates(RESIDUAL))
    assert judged(framed) == ("UNDECIDED inconclusive", False, 3)
    assert through(framed) == "in the coordinates of the residual stream"
    assert through(SHUFFLED) == "through 256 tokens that both models know by their number"


@pytest.mark.parametrize(("own", "least"), [(0.9, 0.5), (1.2, 0.0)], ids=["more than a half", "less"])
def test_where_a_few_units_leave_open_whether_it_is_half_more_are_looked_up(own, least):
    base, others = model(1, units=600), model(2, units=600)
    mixed = {number: beside(base[number], others[number], own) for number in base}
    framed = compared(base, mixed)
    assert framed.inherited.share == pytest.approx(1 / (1 + own), abs=0.04)
    assert framed.least > least
    looked_up = {len(layer.units) for layer in framed.inherited.drawn_units}
    assert looked_up == ({1200} if least else {256})


@pytest.mark.parametrize(("copies", "most"), [(None, 1e-5), (2000, 0.01)], ids=["all once", "one 2,000 times"])
def test_copies_that_write_a_millionth_or_stand_beside_opposites_are_no_descent(copies, most):
    own = model(2)
    copied = changed(BASE, lambda layer, _: layer.select(np.zeros(copies, dtype=int)) if copies else layer)
    found = compared(BASE, {number: beside(own[number], copied[number], 1e-6) for number in own})
    assert found.inherited.share < most
    assert found.p_value > 0.01
    both = {number: beside(beside(own[number], BASE[number], 50), opposite(BASE[number]), 50) for number in own}
    assert compared(BASE, both).inherited.share < 0.05
