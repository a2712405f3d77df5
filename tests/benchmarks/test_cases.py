"""Cases that say why they were not measured."""

import pytest

from benchmarks.cases import CASES, Bench, gpu
from benchmarks.scratch import scratch
from benchmarks.shapes import QUICK


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
