"""Strata hold rows of similar sizes, whatever was permuted within them before."""

import numpy as np

from hf_lineage.evidence.nulls.strata import LEAST, RATIO, orders_within, strata_of
from hf_lineage.signature import random_stream

SIZES = np.exp(0.5 * np.random.default_rng(0).normal(size=(2, 300)))


def test_every_row_is_in_one_stratum_of_few_rows_of_similar_size():
    sets = strata_of(SIZES)
    assert np.array_equal(np.sort(np.concatenate(sets)), np.arange(300))
    assert all(
        LEAST <= len(some) < 2 * LEAST or np.ptp(np.log(SIZES[:, some]), axis=1).max() < np.log(RATIO) for some in sets
    )


def test_a_permutation_within_strata_leaves_the_strata():
    sets = strata_of(SIZES)
    (order,) = orders_within(sets, 1, random_stream("a test"))
    again = strata_of(SIZES[:, order])
    assert {tuple(some) for some in again} == {tuple(some) for some in sets}
    assert not np.array_equal(order, np.arange(300))


def test_rows_of_one_size_and_rows_of_no_size_stay_together():
    assert [some.tolist() for some in strata_of(np.ones((2, 9)))] == [[*range(9)]]
    apart = strata_of(np.array([[0.0, 0, 0, 0, 1, 1, 1, 1]]))
    assert sorted(some.tolist() for some in apart) == [[0, 1, 2, 3], [4, 5, 6, 7]]
