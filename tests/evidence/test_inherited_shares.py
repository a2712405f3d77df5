"""How much of each layer is inherited: by units drawn at random, and not where others undo it."""

import numpy as np
import pytest

from tests.unit_rows import beside, compared, model, opposite


@pytest.mark.parametrize(("own", "least"), [(0.9, 0.5), (1.2, 0.0)], ids=["more than a half", "less"])
def test_where_a_few_units_leave_open_whether_it_is_more_than_half_more_are_looked_up(own, least):
    base, others = model(1, units=600), model(2, units=600)
    mixed = {number: beside(base[number], others[number], own) for number in base}
    framed = compared(base, mixed)
    assert framed.inherited.share == pytest.approx(1 / (1 + own), abs=0.04)
    assert framed.least > least
    looked_up = {len(layer.units) for layer in framed.inherited.drawn}
    assert looked_up == ({1200} if least else {256})


def test_copies_that_write_a_millionth_are_no_descent():
    base, own = model(1), model(2)
    framed = compared(base, {number: beside(own[number], base[number], 1e-6) for number in own})
    assert framed.inherited.share < 1e-5
    assert framed.p_value > 0.01


def test_copies_beside_their_opposites_are_no_descent_however_much_they_write():
    base, own = model(1), model(2)
    both = {number: beside(beside(own[number], base[number], 50), opposite(base[number]), 50) for number in own}
    assert compared(base, both).inherited.share < 0.05


def test_a_million_copies_of_one_unit_count_by_what_they_write():
    base, own = model(1), model(2)
    one = {number: layer.select(np.zeros(2000, dtype=int)) for number, layer in base.items()}
    framed = compared(base, {number: beside(own[number], one[number], 1e-6) for number in own})
    assert framed.inherited.share < 0.01
    assert framed.p_value > 0.01
