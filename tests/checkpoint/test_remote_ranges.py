"""No byte of a file is asked for twice, however ranges meet."""

from concurrent.futures import Future

import numpy as np
import pytest

from hf_lineage.checkpoint import remote as reading
from hf_lineage.checkpoint.remote import Held
from hf_lineage.hub import ranges
from hf_lineage.hub.repo import resolve
from tests.models import open_checkpoint

ROWS, WHOLE = "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.gate_proj.weight"


@pytest.fixture
def held():
    """Bytes 10 to 20 and 30 to 40 were asked for, the later ones first."""
    held = Held()
    for start in (30, 10):
        held.add(start, start + 10, Future())
    return held


@pytest.mark.parametrize(
    ("start", "stop", "missing"),
    [
        (0, 50, [(0, 10), (20, 30), (40, 50)]),
        (15, 35, [(20, 30)]),
        (20, 30, [(20, 30)]),
        (12, 18, []),
        (10, 20, []),
        (0, 10, [(0, 10)]),
        (25, 25, []),
    ],
)
def test_what_was_asked_for_is_not_missing(held, start, stop, missing):
    assert list(held.missing(start, stop)) == missing


def test_what_is_on_its_way_is_known_by_the_bytes_that_it_holds(held):
    assert [(one.start, one.stop) for one in held.among(19, 31)] == [(10, 20), (30, 40)]
    assert held.among(20, 30) == []


@pytest.mark.parametrize("gap", [0, 300])
def test_a_matrix_of_which_rows_were_read_is_completed(online, monkeypatch, gap):
    monkeypatch.setattr(ranges, "HEAD", 8)
    monkeypatch.setattr(reading, "GAP", 0)
    checkpoint = open_checkpoint(resolve("acme/llama-base"))
    stored = checkpoint.rows(ROWS).tensor
    before = checkpoint.bytes_read
    pieces = [stored.rows(slice(*ends)) for ends in ((2, 5), (4, 9), (11, 12))]
    checkpoint.prefetch_pieces(pieces, gap=gap)
    some = checkpoint.read_pieces(ROWS, pieces)
    whole = checkpoint.read(ROWS)
    np.testing.assert_array_equal(some, whole[[2, 3, 4, 4, 5, 6, 7, 8, 11]])
    np.testing.assert_array_equal(checkpoint.read_pieces(ROWS, [stored.rows(slice(0, 3))]), whole[:3])
    assert checkpoint.bytes_read - before == stored.size
    assert checkpoint.at_hand(ROWS)
    assert not checkpoint.at_hand(WHOLE)
    assert online.twice() == []
