import pytest

from benchmarks import network
from benchmarks.shapes import Shape


@pytest.mark.long
def test_a_quick_check_moves_a_fifth_of_both_and_nothing_twice():
    found = network.measure(network.SHAPES["7B"].shrunk(16), [network.Case("quick")])
    assert [row.what for row in found if not row.met] == []
    suspect, base, *_ = found
    assert suspect.note.endswith("VERIFIED after 6 of 32 layers")
    assert 0.03 < (suspect.measured or 0) < 0.2
    assert 0.03 < (base.measured or 0) < 0.2


@pytest.mark.long
def test_a_model_that_is_independent_of_its_base_is_read_in_part_and_nothing_twice():
    found = network.measure(network.SHAPES["7B"].shrunk(16), [network.Case("quick", network.INDEPENDENT)])
    assert [row.what for row in found if not row.met] == []
    assert found[0].note.endswith("UNRELATED after 13 of 32 layers")
    # Whole layers, attention included, are .39 of the bytes, and the rows of tokens that both know .02.
    assert 0.2 < (found[0].measured or 0) < 0.42


@pytest.mark.long
def test_over_a_slow_link_a_check_takes_at_least_what_the_link_takes():
    shape = Shape(8, 256, 4096, heads=4, groups=4, head_size=64, vocabulary=512)
    quick, full = network.over_a_link(shape, latency=0.01, rate=50e6)
    assert quick.note.startswith("VERIFIED after 5 of 8 layers")
    assert full.note.startswith("VERIFIED after 8 of 8 layers")
    assert (full.measured or 0) > 2 * 8 * 3 * 256 * 4096 * 2 / 50e6
    assert (quick.measured or 0) < (full.measured or 0)
