"""The arithmetic of the rows that are fitted or predicted."""

import pytest

from benchmarks import tasks
from benchmarks.cases import CASES, Bench, gpu, growth, prediction
from benchmarks.isolated import isolated
from benchmarks.scratch import scratch
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


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """What the case of the GPU yields at the smallest shape."""
    monkeypatch.setattr(gpu, "SIZES", ("1.3B",))

    def measure():
        with scratch(tmp_path) as place:
            place.write(CASES["gpu"].models(QUICK))
            return list(gpu.rows(Bench(QUICK, place, None)))

    return measure


def test_without_a_gpu_a_row_says_that_there_is_none(rows):
    assert [(row.measured, row.note) for row in rows()] == [(None, "not measured: no GPU here")]


def test_where_there_is_a_gpu_it_is_measured_beside_the_cpu(rows, monkeypatch):
    """The processor stands in for the GPU, so the two sketches are the same."""

    def on_stand_in(task, *arguments):
        return "stand-in" if task is tasks.graphics else isolated(task, *arguments)

    monkeypatch.setattr(gpu, "isolated_on_gpu", on_stand_in)
    roofline, faster, same = rows()
    assert (roofline.what, roofline.unit) == ("extract 1.3B, mlp path, k = 64, stand-in", "× roofline")
    assert min(roofline.measured, faster.measured) > 0
    assert same.measured == 0
