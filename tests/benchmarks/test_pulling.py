import pytest

from benchmarks import pulling

MOST = 300 * 2**10
"""KiB; some 160 of them are the interpreter and its libraries."""


@pytest.mark.long
def test_a_pull_takes_little_memory_however_large_the_index(tmp_path):
    pull = pulling.measured(200_000, tmp_path)
    assert pull.stored > 60e6
    assert pull.own < MOST
    assert pull.reader < MOST
