"""Re-Basin with scale finds what was hidden, and finds little between strangers."""

import numpy as np
import pytest

from benchmarks import rebasin

WIDTH, HIDDEN, LAYERS = 24, 40, 3


def model(seed):
    random = np.random.default_rng(seed)
    return [
        (
            random.standard_normal((HIDDEN, WIDTH)).astype(np.float32),
            random.standard_normal((WIDTH, HIDDEN)).astype(np.float32),
        )
        for _ in range(LAYERS)
    ]


def laundered(blocks, seed=1):
    """The same function of a ReLU network: units in another order, each rescaled."""
    random = np.random.default_rng(seed)
    hidden = []
    for w_in, w_out in blocks:
        order, scale = random.permutation(HIDDEN), np.exp(random.uniform(-2, 2, HIDDEN)).astype(np.float32)
        hidden.append(((w_in * scale[:, None])[order], (w_out / scale)[:, order]))
    return hidden


def test_a_model_is_like_itself():
    assert rebasin.similarity(model(0), model(0)) == pytest.approx(1, abs=1e-6)


def test_neither_order_nor_scale_hides_a_model():
    assert rebasin.similarity(model(0), laundered(model(0))) == pytest.approx(1, abs=1e-5)


def test_the_matching_undoes_the_order():
    (w_in, w_out) = model(0)[0]
    order = np.random.default_rng(5).permutation(HIDDEN)
    products = rebasin.unit_products((w_in, w_out), (w_in[order], w_out[:, order]))
    assert rebasin.matching(products).tolist() == np.argsort(order).tolist()


def test_strangers_are_less_alike_than_a_noisy_copy():
    noisy = [(a + 0.3 * b, c + 0.3 * d) for (a, c), (b, d) in zip(model(0), model(7), strict=True)]
    assert rebasin.similarity(model(0), laundered(noisy)) > 0.9
    assert rebasin.similarity(model(0), model(2)) < 0.5


def test_a_dead_unit_counts_for_nothing():
    blocks = [(np.vstack([w_in, 0 * w_in[:1]]), np.hstack([w_out, 9 + w_out[:, :1]])) for w_in, w_out in model(0)]
    assert rebasin.similarity(blocks, blocks) == pytest.approx(1, abs=1e-6)
    assert not rebasin.balanced(blocks[0])[1][:, -1].any()


def test_layers_of_zeros_are_like_nothing():
    zeros = [(0 * w_in, 0 * w_out) for w_in, w_out in model(0)]
    assert rebasin.similarity(zeros, model(0)) == 0
