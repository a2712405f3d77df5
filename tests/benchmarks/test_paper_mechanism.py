"""The parts of the experiments on mechanism and on models beyond language, on cases whose answer is known."""

import numpy as np
import pytest
import torch

from benchmarks.paper.items import jacobians
from benchmarks.paper.parts.coupling import pairing


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


def test_a_scaled_orthogonal_jacobian_does_not_deviate():
    turned = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(0))).Q
    assert jacobians.deviation(3 * turned - torch.eye(6)) == pytest.approx(0, abs=1e-6)
    assert jacobians.deviation(torch.diag(torch.tensor([1.0, -1.0]))) == pytest.approx(0.5**0.5)
