"""Which units of two models belong together, in a stream that is wider than the directions they are matched in."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ortho_group

from hf_lineage.errors import NothingToCompare
from hf_lineage.signature import unit_rows as unit_pairs
from hf_lineage.signature.unit_rows import OrderedUnits, match_units
from tests.unit_rows import rows

WIDTH, COUNT = 16, 200
TURN = ortho_group.rvs(WIDTH, random_state=0).astype(np.float32)
LAYERS = (slice(0, COUNT // 2), slice(COUNT // 2, COUNT))


def units(seed):
    random = np.random.default_rng(seed)
    rows = random.standard_normal((2, COUNT, WIDTH)) * np.linspace(0.3, 2, WIDTH)
    inner, outer = (rows / np.linalg.norm(rows, axis=2, keepdims=True)).astype(np.float32)
    return OrderedUnits(inner, outer, random.lognormal(sigma=0.3, size=COUNT).astype(np.float32), LAYERS, wide=True)


def test_units_are_found_in_other_coordinates_and_another_order_and_few_are_a_reason(monkeypatch):
    base, within = units(1), np.random.default_rng(0).permutation(COUNT // 2)
    order = np.concatenate([within, within + COUNT // 2])
    turned = {"inner": base.inner[order] @ TURN, "outer": base.outer[order] @ TURN}
    found = match_units(base, replace(base, **turned, weight=base.weight[order]))
    assert len(found.first) > 0.98 * COUNT
    assert np.mean(order[found.second] == found.first) > 0.98
    assert np.median(found.weights) > 0.9
    monkeypatch.setattr(unit_pairs, "HARDLY", 0.5)
    with pytest.raises(NothingToCompare, match="% of what hidden units write has a counterpart"):
        match_units(units(1), units(2))


def test_one_number_that_is_not_finite_is_noticed():
    assert rows(0).finite
    for part in ("inner", "outer", "weight", "sizes"):
        values = getattr(rows(0), part).copy()
        values.flat[3] = np.nan
        assert not replace(rows(0), **{part: values}).finite
