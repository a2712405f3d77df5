"""A number is worth something where independent models do not reach it."""

import numpy as np
import pytest

from hf_lineage.evidence.quoted import KINDS, NOTHING, SEPARATES, among, cosine


def test_what_independent_models_reach_decides_nothing():
    assert [KINDS["gains"].worth(value) for value in (0.95, 0.996, 1.0)] == [NOTHING, NOTHING, SEPARATES]
    assert [KINDS["embedding"].worth(value) for value in (0.004, 0.85)] == [NOTHING, SEPARATES]


def test_what_was_not_measured_of_independent_models_decides_nothing():
    assert KINDS["biases"].worth(1.0) == NOTHING
    assert KINDS["biases"].independent == "not measured"


def test_a_cosine_is_of_all_arrays_end_to_end_and_pearson_takes_the_mean_off():
    one, other = [np.array([1.0, 2.0]), np.array([3.0])], [np.array([2.0, 4.0]), np.array([6.0])]
    assert cosine(one, other) == pytest.approx(1)
    assert cosine([np.ones(4) + 0.1 * np.array([1, -1, 1, -1])], [np.ones(4)]) > 0.99
    assert cosine([np.array([1.0, 2.0, 3.0])], [np.array([3.0, 2.0, 1.0])], centred=True) == pytest.approx(-1)


def test_there_is_no_number_without_arrays_of_one_shape_or_any_size():
    assert cosine([np.ones(3)], [np.ones(4)]) is None
    assert cosine([], []) is None
    assert cosine([np.zeros(3)], [np.ones(3)]) is None


def test_models_that_are_named_as_independent_give_the_range_and_others_are_as_they_were_measured():
    kinds = among([{"gains": 0.2}, {"gains": 0.4}, {}])
    assert (kinds["gains"].low, kinds["gains"].high, kinds["gains"].worth(0.5)) == (0.2, 0.4, SEPARATES)
    assert kinds["embedding"] == KINDS["embedding"]
    assert among([]) == KINDS
