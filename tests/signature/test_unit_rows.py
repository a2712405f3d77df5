"""Unit rows know whether their numbers are finite; which units belong together is in test_coordinates."""

from dataclasses import replace

import numpy as np

from tests.unit_rows import rows


def test_one_number_that_is_not_finite_is_noticed():
    assert rows(0).finite
    for part in ("inner", "outer", "weight", "sizes"):
        values = getattr(rows(0), part).copy()
        values.flat[3] = np.nan
        assert not replace(rows(0), **{part: values}).finite
