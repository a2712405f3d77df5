"""The arithmetic of the rows that are fitted or predicted."""

import pytest

from benchmarks.cases import growth, prediction
from benchmarks.shapes import FULL, QUICK, growing


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_is_that_of_the_growth(power):
    assert growth.exponent([(size, 3 * size**power) for size in (2, 4, 8)]) == pytest.approx(power)


@pytest.mark.parametrize("plan", [FULL, QUICK])
@pytest.mark.parametrize("size", growth.SIZES)
def test_models_grow_in_one_size_alone(plan, size):
    shapes = [model.shape for model in growing(plan, size)]
    grown = [getattr(shape, size) for shape in shapes]
    assert grown == [grown[0], 2 * grown[0], 4 * grown[0]]
    others = {"layers", "width", "hidden", "heads", "head_size"} - {size}
    assert all(len({getattr(shape, other) for shape in shapes}) == 1 for other in others)


def test_a_layer_of_70b_is_five_times_one_of_7b():
    ratio = prediction.stored(FULL.shapes["70B"]) / prediction.stored(FULL.shapes["7B"])
    assert ratio == pytest.approx(8192 * 28672 / (4096 * 11008))
