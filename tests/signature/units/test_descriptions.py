import numpy as np
import pytest
from scipy.stats import ortho_group

from hf_lineage.signature.units.descriptions import FURTHEST, described

RANDOM = np.random.default_rng(0)
INNER, OUTER = (RANDOM.standard_normal((2, 40, 12)) * np.linspace(0.3, 2, 12)).astype(np.float32)
WEIGHT = RANDOM.lognormal(size=40).astype(np.float32)
TURN = ortho_group.rvs(12, random_state=0).astype(np.float32)
ORDER = RANDOM.permutation(40)
SIGNS = RANDOM.choice([-1, 1], (40, 1)).astype(np.float32)


@pytest.mark.parametrize(
    "sides",
    [
        (INNER @ TURN, OUTER @ TURN),
        (INNER * SIGNS, OUTER * SIGNS),
        (np.pad(INNER, [(0, 0), (0, 3)]), np.pad(OUTER, [(0, 0), (0, 3)])),
    ],
    ids=["turned", "with both signs changed", "in a wider stream"],
)
def test_units_are_described_alike_in_other_coordinates(sides):
    assert np.allclose(described(*sides, WEIGHT), described(INNER, OUTER, WEIGHT), atol=1e-2)


def test_the_order_of_units_plays_no_part():
    reordered = described(INNER[ORDER], OUTER[ORDER], WEIGHT[ORDER])
    assert np.allclose(reordered, described(INNER, OUTER, WEIGHT)[ORDER], atol=1e-2)


def test_units_are_told_apart():
    numbers = described(INNER, OUTER, WEIGHT)
    distances = np.linalg.norm(numbers[:, None] - numbers[None], axis=2) + 100 * np.eye(40)
    assert distances.min() > 1
    assert np.abs(numbers).max() <= FURTHEST
