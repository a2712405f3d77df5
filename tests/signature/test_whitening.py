"""The inverse root makes columns orthonormal, and leaves out directions in which there is nothing."""

import numpy as np
import pytest

from hf_lineage.signature.arrays import compute_whitening

WIDTH = 50
TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((WIDTH, WIDTH)))[0]


def seen(sizes, least=1e-4):
    """The inverse root of G whose roots have these sizes, and X G^(-1/2), X the root of G."""
    root = (TURN * sizes) @ TURN.T
    found = compute_whitening(root @ root, least)
    return found, root @ found.times(np.eye(WIDTH))


@pytest.mark.parametrize("smallest", [1, 0.1, 1e-3])
def test_all_directions_count_alike_whatever_lies_in_them(smallest):
    found, whitened = seen(np.geomspace(smallest, 1, WIDTH))
    assert found.rank == WIDTH
    assert np.allclose(whitened, np.eye(WIDTH), atol=1e-6)


@pytest.mark.parametrize("small", [0.0, 1e-8])
def test_directions_in_which_there_is_next_to_nothing_are_left_out(small):
    found, whitened = seen(np.where(np.arange(WIDTH) < 30, 1.0, small))
    assert found.rank == 30
    assert np.allclose(whitened, TURN[:, :30] @ TURN[:, :30].T, atol=1e-6)


def test_nothing_has_no_directions():
    found, whitened = seen(np.zeros(WIDTH))
    assert found.rank == 0
    assert not whitened.any()
