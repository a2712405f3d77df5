from benchmarks import network


def test_with_a_signature_of_the_base_a_check_moves_a_tenth_and_nothing_twice():
    found = network.measure(network.SHAPES["7B"].shrunk(32), [network.Case("quick", published=True)])
    assert [row.what for row in found if not row.met] == []
    suspect, base, *_ = found
    assert suspect.note.endswith("RELATED after 6 of 32 layers")
    assert 0.03 < (suspect.measured or 0) < 0.15
    assert 0 < (base.measured or 0) < 0.01
