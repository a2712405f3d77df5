"""A pair is both models along one path: layers that write next to nothing are left out and named, others never."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.evidence.judging.measurement import Pair
from tests.signature.test_values import path_signature, signature


def writing(*amounts):
    """A path of so many layers, each of which writes that much, and whose traces are their numbers."""
    path = path_signature(layers=len(amounts))
    path.writes[:] = amounts
    path.trace[:] = range(len(amounts))
    return path


def test_layers_that_write_alike_are_all_there():
    pair = Pair.along("mlp", writing(1, 1, 1), writing(1, 2))
    assert (pair.layers, pair.left_out) == (((0, 1, 2), (0, 1)), ((), ()))


def test_layers_that_write_next_to_nothing_are_left_out_of_either_model():
    pair = Pair.along("mlp", writing(1, 1e-9, 1), writing(1e-9, 1, 1, 1e-9, 1))
    assert (pair.layers, pair.left_out) == (((0, 2), (1, 2, 4)), ((1,), (0, 3)))
    assert [signature.trace.tolist() for signature in pair.signatures] == [[0, 2], [1, 2, 4]]


def test_a_model_of_which_no_layer_can_be_measured_keeps_all_so_that_the_verdict_can_say_so():
    pair = Pair.along("mlp", writing(0, 0), writing(1, 1))
    pair.signatures[0].norm[:] = 0
    again = Pair.along("mlp", pair.signatures[0], writing(1, 1))
    assert (again.layers, again.left_out) == (((0, 1), (0, 1)), ((), ()))


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_layer_that_is_not_finite_is_kept_and_named(poison):
    path = writing(1, 1, 1e-9, 1)
    path.norm[1] = poison
    pair = Pair.along("mlp", writing(1, 1), path)
    assert (pair.layers[1], pair.left_out[1], pair.not_finite) == ((0, 1, 3), (2,), ((), (1,)))


def test_layers_bear_the_numbers_that_they_have_in_the_model():
    def model(without, *amounts):
        return replace(signature(), layers=5, paths={"mlp": writing(*amounts)}, without={"mlp": without})

    pair = Pair.align("mlp", model((0, 3), 1, 1e-9, 1), model((1, 2), 1, 1, 1))
    assert (pair.layers, pair.left_out) == (((1, 4), (0, 3, 4)), ((2,), ()))


@pytest.mark.parametrize(
    ("base", "candidate", "both"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_coordinates_can_be_exchanged_only_if_they_can_be_in_both_models(base, candidate, both):
    pair = Pair.align("mlp", signature(exchangeable=base), signature(exchangeable=candidate))
    assert pair.exchangeable is both
