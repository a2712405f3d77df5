from dataclasses import replace

from benchmarks import network


def test_a_check_moves_less_than_half_and_nothing_twice():
    found = network.measure(replace(network.SHAPE, layers=8))
    assert [row.what for row in found if not row.met] == []
    assert all("all read: RELATED" in row.note for row in found if "bytes moved" in row.what)
    assert all((row.measured or 0) > 0.1 for row in found if "bytes moved" in row.what)
