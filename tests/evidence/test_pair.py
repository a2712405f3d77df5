"""A pair is both models along one path: layers bear the numbers that they have in their model."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.evidence.measure import Pair
from tests.signature.test_values import path_signature, signature


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_layer_that_is_not_finite_is_kept_and_named(poison):
    path = path_signature(layers=4)
    path.norm[1] = poison
    pair = Pair.along("mlp", path_signature(layers=2), path)
    assert (pair.layers, pair.not_finite) == (((0, 1), (0, 1, 2, 3)), ((), (1,)))


def test_layers_bear_the_numbers_that_they_have_in_the_model():
    def model(*without):
        return replace(signature(), layers=5, paths={"mlp": path_signature(layers=3)}, without={"mlp": without})

    assert Pair.align("mlp", model(0, 3), model(1, 2)).layers == ((1, 2, 4), (0, 3, 4))


@pytest.mark.parametrize(
    ("base", "candidate", "both"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_coordinates_can_be_exchanged_only_if_they_can_be_in_both_models(base, candidate, both):
    pair = Pair.align("mlp", signature(exchangeable=base), signature(exchangeable=candidate))
    assert pair.exchangeable is both
