"""The rival methods on cases whose answer is known."""

import numpy as np
import pytest
import torch
from scipy.stats import ortho_group

from benchmarks.paper.parts import baselines, models, representations

SHAPE = models.Shape(inputs=6, width=12, hidden=20, layers=3)
INPUTS = torch.randn(64, 6, generator=torch.Generator().manual_seed(3))


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


def test_the_cosine_does_not_see_scale_and_sees_signs(pair):
    a = blocks(pair[0])
    assert baselines.weight_cosine(a, [(3 * i, 3 * o) for i, o in a]) == pytest.approx(1)
    assert baselines.weight_cosine(a, [(-i, -o) for i, o in a]) == pytest.approx(-1)


def test_aligned_frobenius_undoes_the_order_of_blocks_and_not_that_of_units(pair):
    a = blocks(pair[0])
    assert baselines.aligned_frobenius(a, a[::-1]) == pytest.approx(0, abs=1e-5)
    assert baselines.aligned_frobenius(a, [(i[::-1], o[:, ::-1]) for i, o in a]) < -0.5
    assert baselines.aligned_frobenius(a, [(2 * i, 2 * o) for i, o in a]) == pytest.approx(-1, abs=1e-5)


def test_singular_values_do_not_see_rotations_and_see_scale(pair):
    a = blocks(pair[0])
    turn = ortho_group.rvs(20, random_state=0).astype(np.float32)
    assert baselines.singular_values(a, [(turn @ i, o @ turn.T) for i, o in a]) == pytest.approx(0, abs=1e-5)
    assert baselines.singular_values(a, [(2 * i, 2 * o) for i, o in a]) == pytest.approx(-1, abs=1e-5)


def test_frobenius_pairing_matches_norms():
    unit = np.eye(4, dtype=np.float32)
    found = baselines.frobenius_pairing([(read * unit, write * unit) for read, write in ((1, 3), (5, 1), (3, 5))])
    assert found.tolist() == [2, 0, 1]


RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2000, 5))


@pytest.mark.parametrize("measure", [representations.svcca, representations.cka])
def test_representations_that_differ_by_a_rotation_are_the_same(measure):
    turned = 3 * X @ ortho_group.rvs(5, random_state=1) + 7
    assert measure(X, turned) == pytest.approx(1, abs=1e-6)
    assert measure(X, RANDOM.standard_normal((2000, 5))) < 0.1


def test_svcca_sees_through_any_invertible_map_and_cka_does_not():
    mapped = X @ np.diag([1.0, 2.0, 3.0, 4.0, 20.0])
    assert representations.svcca(X, mapped, variance=1 - 1e-9) == pytest.approx(1, abs=1e-6)
    assert representations.cka(X, mapped) < 0.7


def test_svcca_leaves_out_directions_without_variance():
    noisy = np.hstack([X, 1e-3 * RANDOM.standard_normal((2000, 3))])
    other = np.hstack([X, 1e-3 * RANDOM.standard_normal((2000, 3))])
    assert representations.svcca(noisy, other) == pytest.approx(1, abs=1e-3)


def test_cka_of_half_a_representation_is_known():
    """White features, of which one half is shared: ‖YᵀX‖² = 2 n² by ‖XᵀX‖ ‖YᵀY‖ = 2 n² √2."""
    white = np.linalg.qr(X - X.mean(axis=0))[0]
    assert representations.cka(white[:, :4], white[:, 2:4]) == pytest.approx(2 / (2 * 2**0.5), abs=1e-6)


def test_ipguard_agrees_with_itself_and_not_with_the_opposite():
    def model(inputs):
        return inputs.sum(dim=1)

    boundary = float(model(INPUTS).median())
    prints = representations.fingerprint(model, INPUTS)
    away = (model(prints) - boundary).abs() / model(INPUTS).std()
    assert away.max() < 0.1
    assert representations.ipguard(model, model, prints, boundary) == 1
    assert representations.ipguard(model, lambda inputs: 2 * boundary - model(inputs), prints, boundary) == 0
    assert 0.3 < float((model(prints) > boundary).float().mean()) < 0.7
