"""The arithmetic of the rows that are fitted or predicted."""

import pytest

from benchmarks.cases import CASES, Bench, gpu, growth, prediction
from benchmarks.scratch import scratch
from benchmarks.shapes import FULL, QUICK


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_is_that_of_the_growth(power):
    assert growth.exponent([(size, 3 * size**power) for size in (2, 4, 8)]) == pytest.approx(power)


def test_a_layer_of_70b_is_five_times_one_of_7b():
    ratio = prediction.stored(FULL.shapes["70B"]) / prediction.stored(FULL.shapes["7B"])
    assert ratio == pytest.approx(8192 * 28672 / (4096 * 11008))


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """What the case of the GPU yields at the smallest shape."""
    monkeypatch.setattr(gpu, "SIZES", ("1.3B",))

    def measure():
        with scratch(tmp_path) as place:
            place.write(CASES["gpu"].models(QUICK))
            return list(gpu.rows(Bench(QUICK, place, None)))

    return measure


@pytest.mark.long
def test_without_a_gpu_a_row_says_that_there_is_none(rows):
    assert [(row.measured, row.note) for row in rows()] == [(None, "not measured: no GPU here")]
