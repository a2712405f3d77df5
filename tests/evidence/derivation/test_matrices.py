"""A matrix beside those of its parents: what is too near to be told apart is left out, as is what is not finite."""

import numpy as np
import pytest

from hf_lineage.evidence.derivation.matrices import FEWEST, PARTS, Stored, inner_products
from hf_lineage.evidence.derivation.rounding import DIGITS, rounded, spacing

BF16 = DIGITS["BF16"]
RANDOM = np.random.default_rng(0)
BASE = rounded(RANDOM.standard_normal((16, 64)).astype(np.float32), BF16)


def near(size):
    return rounded((BASE + size * RANDOM.standard_normal(BASE.shape)).astype(np.float32), BF16)


def products(*parents, model):
    return inner_products(3, "mlp", [*enumerate(map(Stored, parents))], Stored(model, BF16, spacing(model, BF16)))


def test_inner_products_are_of_the_first_parent_and_of_all_differences_from_it():
    a, b = near(0.5), near(0.5)
    one = inner_products(3, "mlp", [(4, Stored(BASE)), (7, Stored(a))], Stored(b))
    assert (one.layer, one.active, one.grams.shape) == (3, (4, 7), (PARTS, 3, 3))
    rows = np.stack([BASE.ravel(), (a - BASE).ravel(), (b - BASE).ravel()]).astype(np.float64)
    assert one.gram == pytest.approx(rows @ rows.T)
    assert one.rounding is None


def test_numbers_in_which_the_parents_differ_by_less_than_the_format_tells_are_left_out():
    model, other = near(0.01), near(0.5)
    other[:8] = BASE[:8]
    one = products(BASE, other, model=model)
    assert one.gram[0, 0] < (BASE[8:].astype(np.float64) ** 2).sum()
    assert one.rounding == pytest.approx(float((spacing(model, BF16)[8:] ** 2).sum()) / 12, rel=0.2)
    assert products(BASE, near(1e-4), model=model) is None
    assert BASE.size > FEWEST


def test_what_is_not_finite_and_what_is_zero_tells_nothing():
    broken = BASE.copy()
    broken[0, 0] = np.nan
    assert products(BASE, near(0.5), model=broken) is None
    assert products(np.zeros_like(BASE), model=BASE) is None
