"""The inverse root of a wide matrix, by bands, is that by all of its directions."""

import numpy as np
import pytest

from hf_lineage.signature import inverse_root as module
from hf_lineage.signature.inverse_root import inverse_root

RANDOM = np.random.default_rng(0)
WIDTH = 50
TURN = np.linalg.qr(RANDOM.standard_normal((WIDTH, WIDTH)))[0]


@pytest.fixture
def both(monkeypatch):
    """A function that makes the inverse root in both ways."""
    monkeypatch.setattr(module, "BLOCK", 8)

    def made(square, least=1e-4):
        by_directions = inverse_root(square, least)
        monkeypatch.setattr(module, "WIDE", 16)
        return by_directions, inverse_root(square, least)

    return made


def seen(roots, found):
    """What is seen of the stream: X G^(-1/2), X the roots of G."""
    return roots @ found.times(np.eye(WIDTH))


@pytest.mark.parametrize("smallest", [1, 0.1, 1e-3])
def test_both_ways_give_the_same(both, smallest):
    roots = (TURN * np.geomspace(smallest, 1, WIDTH)) @ TURN.T
    one, other = both(roots @ roots)
    assert (one.rank, other.rank) == (WIDTH, WIDTH)
    assert np.allclose(seen(roots, one), np.eye(WIDTH), atol=1e-6)
    assert np.allclose(seen(roots, other), np.eye(WIDTH), atol=0.01)


@pytest.mark.parametrize("rank", [1, 5, 30])
def test_directions_in_which_there_is_nothing_are_left_out(both, rank):
    roots = (TURN * np.where(np.arange(WIDTH) < rank, 1.0, 0.0)) @ TURN.T
    one, other = both(roots @ roots)
    assert (one.rank, other.rank) == (rank, rank)
    assert np.allclose(seen(roots, other), seen(roots, one), atol=5e-3)


def test_directions_below_the_least_do_not_outweigh_others(both):
    sizes = np.where(np.arange(WIDTH) < 30, 1.0, 1e-8)
    roots = (TURN * sizes) @ TURN.T
    one, other = both(roots @ roots)
    assert (one.rank, other.rank) == (30, 30)
    assert np.linalg.norm(seen(roots, other) - seen(roots, one), 2) < 0.01


def test_one_direction_that_is_much_larger_hides_no_others(both):
    sizes = np.where(np.arange(WIDTH) == 0, 1.0, 1e-3)
    roots = (TURN * sizes) @ TURN.T
    _, other = both(roots @ roots)
    assert other.rank == WIDTH
    assert np.allclose(seen(roots, other), np.eye(WIDTH), atol=5e-3)


def test_nothing_has_no_directions(both):
    one, other = both(np.zeros((WIDTH, WIDTH)))
    assert (one.rank, other.rank) == (0, 0)
    assert not other.times(np.ones((WIDTH, 3))).any()
