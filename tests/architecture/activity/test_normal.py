"""The standard normal distribution: the same numbers one by one as by scipy."""

import numpy as np
import pytest
from scipy.stats import norm

from hf_lineage.architecture.activity.normal import FEW, density_at, share_below

Z = np.concatenate([np.linspace(-9, 9, FEW - 3), [-np.inf, np.inf, 0.0]])


@pytest.mark.parametrize("times", [1, 2], ids=["few", "many"])
def test_the_share_below_is_that_of_scipy(times):
    z = np.tile(Z, times)
    np.testing.assert_allclose(share_below(z), norm.cdf(z), rtol=1e-13, atol=0)


def test_nothing_lies_below_what_is_not_a_number():
    assert np.isnan(share_below(np.array([np.nan]))).all()
    assert np.isnan(share_below(np.full(FEW + 1, np.nan))).all()


def test_arrays_keep_their_shape():
    assert share_below(np.zeros((3, 4))).shape == density_at(np.zeros((3, 4))).shape == (3, 4)


def test_the_density_is_that_of_scipy():
    np.testing.assert_allclose(density_at(Z), norm.pdf(Z), rtol=1e-12)
