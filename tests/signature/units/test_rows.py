from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.signature.units.rows import cosines
from tests.unit_rows import opposite, rows


def test_a_unit_is_like_itself_and_unlike_its_opposite():
    layer = rows(0)
    assert np.allclose(np.diag(cosines(layer, layer)), 1, atol=1e-5)
    assert np.allclose(np.diag(cosines(layer, opposite(layer))), -1, atol=1e-5)


def test_some_units_keep_all_that_is_known_of_them():
    layer = rows(0)
    some = layer.select(np.array([5, 2]))
    assert np.array_equal(some.inner, layer.inner[[5, 2]])
    assert np.array_equal(some.sizes, layer.sizes[:, [5, 2]])
    assert len(some.weight) == 2


@pytest.mark.parametrize("part", ["inner", "outer", "weight", "sizes"])
def test_one_number_that_is_not_finite_is_noticed(part):
    values = getattr(rows(0), part).copy()
    values.flat[3] = np.nan
    assert rows(0).finite
    assert not replace(rows(0), **{part: values}).finite
