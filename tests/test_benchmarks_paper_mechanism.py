"""Experiments on mechanism and on models beyond language, at the small size: what the paper claims holds."""

import functools

import numpy as np
import pytest
import torch

from benchmarks.paper.experiment import Bench, ClaimError
from benchmarks.paper.items import (
    beyond_language,
    convolutions,
    factorizations,
    gradients,
    initialisations,
    jacobians,
    skips,
)
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.coupling import SMOKE, held_out, pairing
from benchmarks.paper.parts.digits import digits
from benchmarks.paper.parts.results import Row

MODULES = (initialisations, skips, gradients, jacobians, factorizations, convolutions, beyond_language)
EXPERIMENTS = [experiment for module in MODULES for experiment in module.EXPERIMENTS]


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("paper")
    return Bench("smoke", Cache(folder), folder / "figures")


@pytest.fixture(scope="module")
def rows_of(bench):
    """The rows of an experiment by name, measured once."""
    return functools.cache(lambda experiment: {row.name: row for row in experiment.rows(bench)})


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: f"{experiment.item} {experiment.title}")
def test_the_claim_holds_at_the_small_size(experiment, rows_of):
    experiment.claim(rows_of(experiment))


def test_a_pairing_is_that_of_the_products_written_out():
    random = torch.Generator().manual_seed(0)
    blocks = [(torch.randn(5, 4, generator=random), torch.randn(4, 5, generator=random)) for _ in range(3)]
    products = [[(w_out @ w_in).double() for w_in, _ in blocks] for _, w_out in blocks]
    expected = [[float(product.trace().abs() / product.norm()) for product in row] for row in products]
    found = pairing(blocks)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-5)
    assert found.signs.tolist() == [float(products[i][i].trace().sign()) for i in range(3)]


def test_identical_partners_find_each_other_and_strangers_do_not():
    random = torch.Generator().manual_seed(0)
    readers = [torch.randn(64, 16, generator=random) for _ in range(6)]
    assert pairing([(reader, -reader.mT) for reader in readers]).accuracy == 1
    assert pairing([(reader, readers[(n + 1) % 6].mT) for n, reader in enumerate(readers)]).accuracy == 0


def test_digits_are_split_once_and_normalised():
    trained, held = digits()
    assert (len(trained.pictures), len(held.pictures)) == (1437, 360)
    everything = torch.cat([trained.pictures, held.pictures])
    assert float(everything.mean()) == pytest.approx(0, abs=1e-5)
    assert float(everything.std()) == pytest.approx(1, abs=1e-5)
    assert trained.targets.sum(dim=1).eq(1).all()
    assert torch.equal(trained.images(2)[0, 0, ::2, ::2].flatten(), trained.pictures[0])


def test_untrained_networks_guess():
    assert held_out(SMOKE.start())[1].item() < 0.3


def test_a_scaled_orthogonal_jacobian_does_not_deviate():
    turned = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(0))).Q
    assert jacobians.deviation(3 * turned - torch.eye(6)) == pytest.approx(0, abs=1e-6)
    assert jacobians.deviation(torch.diag(torch.tensor([1.0, -1.0]))) == pytest.approx(0.5**0.5)


def test_an_injected_update_is_worth_its_square_on_the_diagonal():
    start = SMOKE.start()
    emptied = start.changed(torch.zeros_like, ("w_in", "w_out"))
    width = start.shape.width
    assert gradients.injected(emptied, 0.1, 3)[1:] == pytest.approx([width**0.5] * 3)


def test_shifted_gradients_come_from_the_block_before():
    networks = SMOKE.start().changed(lambda tensor: tensor.clone().requires_grad_())
    w_out = networks.weights["w_out"]
    w_out.grad = torch.arange(SMOKE.shape.layers).float().view(1, -1, 1, 1).expand_as(w_out).clone()
    gradients.shifted(networks, torch.Generator())
    assert w_out.grad[0, :, 0, 0].tolist() == [7.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize(
    ("experiment", "name", "value"),
    [
        (initialisations.EXPERIMENTS[0], "orthogonal: untrained", 0.9),
        (jacobians.EXPERIMENTS[0], "all-MiniLM-L6-v2: ratio", 1.0),
        (factorizations.EXPERIMENTS[0], "SwiGLU MLP", "W_down W_up: 0 factorizations, 0 classes"),
        (factorizations.EXPERIMENTS[1], "tiny ResNet of 5, W_3 W_1: pair accuracy", 1.0),
        (convolutions.EXPERIMENTS[0], "AUROC", 0.9),
        (beyond_language.EXPERIMENTS[0], "tiny ViT, W_2 W_1: pair accuracy", 0.2),
        (skips.EXPERIMENTS[0], "b, PlainNet: pair accuracy", 1.0),
        (gradients.EXPERIMENTS[0], gradients.FOLLOWED, 0.0),
    ],
    ids=lambda value: getattr(value, "item", None),
)
def test_a_claim_fails_where_its_figure_does(experiment, name, value, rows_of):
    rows = rows_of(experiment)
    assert name in rows
    with pytest.raises(ClaimError):
        experiment.claim(rows | {name: Row(name, None, value)})
