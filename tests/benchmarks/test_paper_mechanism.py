"""The parts of the experiments on mechanism and on models beyond language, on cases whose answer is known."""

import numpy as np
import pytest
import torch

from benchmarks.paper.items import gradients, jacobians
from benchmarks.paper.parts.coupling import SMOKE, held_out, pairing
from benchmarks.paper.parts.pictures import DIGITS, digits, of_rows


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
    trained, held = digits().training, digits().held_out
    assert (len(trained.images), len(held.images)) == (1437, 360)
    everything = torch.cat([trained.images, held.images])
    assert float(everything.mean()) == pytest.approx(0, abs=1e-5)
    assert float(everything.std()) == pytest.approx(1, abs=1e-5)
    assert trained.targets.sum(dim=1).eq(1).all()
    assert torch.equal(trained.enlarged(2)[:, :, ::2, ::2].flatten(1), trained.flat)


def test_pictures_in_rows_keep_their_colours_their_places_and_their_classes():
    colours = np.zeros((3, 4, 4, 3), dtype=np.uint8)
    colours[1, 2, 3, 0] = 255
    found = of_rows([{"img": picture, "label": number} for number, picture in enumerate(colours)], training=2)
    assert (found.training.images.shape, found.held_out.images.shape) == ((2, 3, 4, 4), (1, 3, 4, 4))
    assert found.training.images.flatten().argmax() == 3 * 16 + 2 * 4 + 3
    assert (found.training.classes.tolist(), found.held_out.classes.tolist()) == ([0, 1], [2])


def test_untrained_networks_guess():
    assert held_out(SMOKE.start(), DIGITS)[1].item() < 0.3


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
