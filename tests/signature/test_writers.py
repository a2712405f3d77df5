"""A layer writes if what it adds is not lost in the stream that it joins, however loud another layer is."""

import numpy as np
import pytest

from hf_lineage.signature.writers import LARGEST, LOUD, USUAL, beside_base, writing


def which(writes, begins=0.0, beside=0.0):
    """The numbers of the layers that write."""
    writes = np.array(writes, float)
    joins = np.stack([np.full(len(writes), begins), np.full(len(writes), beside)], axis=1)
    return np.flatnonzero(writing(writes, joins, writes > 0)).tolist()


def test_layers_that_write_alike_all_write():
    assert which([1.0, 2.0, 0.5, 1.0]) == [0, 1, 2, 3]


@pytest.mark.parametrize(("begins", "beside"), [(900.0, 0.0), (0.0, 400.0)])
def test_layers_write_beside_a_stream_that_is_nearly_a_thousand_times_as_loud(begins, beside):
    assert which([1.0] * 4, begins, beside) == [0, 1, 2, 3]


@pytest.mark.parametrize(("begins", "beside"), [(1100.0, 0.0), (0.0, 1100.0), (LARGEST, 0.0), (np.inf, 0.0)])
def test_no_layer_writes_beside_one_that_is_louder(begins, beside):
    assert which([1.0] * 4, begins, beside) == []


def test_attention_of_earlier_layers_is_in_the_stream_and_that_of_later_layers_is_not():
    joins = np.array([[0.0, 1.0], [0.0, 1e4], [0.0, 1.0], [0.0, 1.0]])
    assert writing(np.ones(4), joins, np.ones(4, bool)).tolist() == [True, False, False, False]


@pytest.mark.parametrize("layers", [3, 4, 7, 33])
@pytest.mark.parametrize("place", [0, -1])
def test_a_loud_layer_silences_no_other(layers, place):
    writes = [1.0] * layers
    writes[place] = 1e9
    assert which(writes) == list(range(layers))


def test_faint_layers_do_not_write_unless_they_are_most_and_nothing_else_is_known():
    assert which([1.0] * 4 + [1e-15] * 3) == [0, 1, 2, 3]
    assert which([1.0] * 3 + [1e-15] * 6, begins=1.0) == [0, 1, 2]


def test_loud_layers_silence_no_other_unless_they_are_most():
    assert which([1.0] * 6 + [1e9] * 6) == list(range(12))
    assert which([1.0] * 5 + [1e9] * 6) == list(range(5, 11))


def test_layers_that_are_all_alike_write_whatever_their_size_where_nothing_is_known_of_the_stream():
    assert writing(np.full(3, 1e-15), None, np.ones(3, bool)).all()


def test_what_cannot_be_counted_does_not_write():
    assert writing(np.ones(3), None, np.array([True, False, True])).tolist() == [True, False, True]
    assert not writing(np.ones(3), None, np.zeros(3, bool)).any()


def joined(*gains):
    """What three layers join whose streams are alike, with these gains of what is not measured, (2,) each."""
    return np.array([[1.0, 2.0, *each] for each in gains])


@pytest.mark.parametrize(("place", "lost"), [(0, [0, 1, 2]), (2, [2])])
def test_from_a_layer_on_in_which_something_acts_far_more_strongly_than_in_the_base_nothing_writes(place, lost):
    base = joined((0.5, 3.0), (0.5, 4.0), (0.5, 3.0))
    loud = base.copy()
    loud[place, 3] = 4.0 + LOUD + 0.1
    writes = writing(np.ones(3), beside_base(loud, base), np.ones(3, bool))
    assert np.flatnonzero(~writes).tolist() == lost


def test_what_acts_too_strongly_before_the_layers_takes_all_of_them():
    base = joined(*[(5.0, 0.0)] * 3)
    loud = joined(*[(5.0 + LOUD + 0.1, 0.0)] * 3)
    assert not writing(np.ones(3), beside_base(loud, base), np.ones(3, bool)).any()


def test_a_candidate_may_act_as_strongly_as_the_base_and_somewhat_more_strongly():
    base = joined((0.0, 8.0), (0.0, 9.0), (0.0, 8.0))
    assert beside_base(base, base).tolist() == base.tolist()
    somewhat = base + np.array([0, 0, 0, LOUD])
    assert beside_base(somewhat, base).tolist() == somewhat.tolist()


def test_a_base_of_a_class_in_which_all_is_measured_allows_for_a_class_in_which_it_is_not():
    base, other = joined(*[(0.0, 0.0)] * 3), joined(*[(1.0, USUAL + LOUD)] * 3)
    assert beside_base(other, base).tolist() == other.tolist()
