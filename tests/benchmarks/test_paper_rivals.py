"""The rival methods on cases whose answer is known."""

import numpy as np
import pytest
from scipy.stats import ortho_group

from benchmarks.paper.parts import baselines, models, representations

SHAPE = models.Shape(inputs=6, width=12, hidden=20, layers=3)


@pytest.fixture(scope="module")
def pair():
    """Two untrained networks."""
    return models.initial(SHAPE, [1, 2])


def blocks(network):
    return baselines.arrays(network.blocks)


@pytest.mark.parametrize("method", baselines.METHODS.values())
def test_to_every_rival_a_model_is_most_like_itself(pair, method):
    itself, stranger = method(blocks(pair[0]), blocks(pair[0])), method(blocks(pair[0]), blocks(pair[1]))
    assert itself == pytest.approx(1 if itself > 0.5 else 0, abs=1e-5)
    assert stranger < itself


RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2000, 5))


@pytest.mark.parametrize("measure", [representations.svcca, representations.cka])
def test_representations_that_differ_by_a_rotation_are_the_same(measure):
    turned = 3 * X @ ortho_group.rvs(5, random_state=1) + 7
    assert measure(X, turned) == pytest.approx(1, abs=1e-6)
    assert measure(X, RANDOM.standard_normal((2000, 5))) < 0.1


def test_cka_of_half_a_representation_is_known():
    """White features, of which one half is shared: ‖YᵀX‖² = 2 n² by ‖XᵀX‖ ‖YᵀY‖ = 2 n² √2."""
    white = np.linalg.qr(X - X.mean(axis=0))[0]
    assert representations.cka(white[:, :4], white[:, 2:4]) == pytest.approx(2 / (2 * 2**0.5), abs=1e-6)
