"""Shares of the parents of a merge, matrix by matrix; made models tell what they have to be."""

import numpy as np
import pytest

from hf_lineage.checkpoint.rounding import DIGITS, round_digits, spacing
from hf_lineage.evidence.merge import ALIKE, FEWEST, OTHER_ORDER, StoredMatrix, inner_products, shares_of

LAYERS = 6
BASE = np.random.default_rng(0).standard_normal((LAYERS, 16, 40))
BF16 = DIGITS["BF16"]
RANDOM = np.random.default_rng(0)
MATRIX = round_digits(RANDOM.standard_normal((16, 64)).astype(np.float32), BF16)


def child(seed, size=0.1):
    return BASE + size * np.random.default_rng(seed).standard_normal(BASE.shape)


A, B, C = (child(seed) for seed in (1, 2, 3))
NEAR, NEARER = (child(seed, 0.001) for seed in (1, 2))


def shares(parents, merge, depth=LAYERS, places=None):
    """The shares by every layer of a merge beside the layers of its parents that stand for it, as a rule its number."""
    matrices = []
    for layer, own in enumerate(merge):
        at = [layer if places is None else place[layer] for place in places or parents]
        rows = [parent[row] if row is not None else None for parent, row in zip(parents, at, strict=True)]
        stored = [(number, StoredMatrix(one.astype(np.float32))) for number, one in enumerate(rows) if one is not None]
        if stored:
            matrices.append(inner_products(layer, "mlp", stored, StoredMatrix(own.astype(np.float32))))
    return shares_of([*filter(None, matrices)], len(parents), depth)


def values(found):
    return [getattr(share, "value", None) for share in found.parents]


def detected(found):
    return [getattr(share, "detected", False) for share in found.parents]


MERGES = {
    "linear": ([A, B], 0.7 * A + 0.3 * B, [0.7, 0.3]),
    "of parents that hardly differ": ([NEAR, NEARER], 0.7 * NEAR + 0.3 * NEARER, [0.7, 0.3]),
    "differences from a base": ([BASE, A, B], BASE + 0.8 * (A - BASE) + 0.5 * (B - BASE), [-0.3, 0.8, 0.5]),
    "a sibling that was not merged": ([A, B, 0.5 * A + 0.5 * C], 0.5 * A + 0.5 * B, [0.5, 0.5, 0]),
}


@pytest.mark.parametrize(("parents", "merge", "expected"), MERGES.values(), ids=MERGES)
def test_the_weights_of_an_exact_merge_are_the_shares(parents, merge, expected):
    found = shares(parents, merge)
    assert values(found) == pytest.approx(expected, abs=1e-3)
    assert detected(found) == [share != 0 for share in expected]
    assert found.remainder < 1e-3
    assert found.parents[0].high - found.parents[0].low < 1e-3


def test_dropped_differences_leave_the_shares_and_a_remainder():
    random = np.random.default_rng(9)
    kept = [(random.random(BASE.shape) < 0.3) / 0.3 for _ in range(2)]
    merge = BASE + 0.6 * kept[0] * (A - BASE) + 0.4 * kept[1] * (B - BASE)
    found = shares([BASE, A, B, C], merge)
    for share, true in zip(found.parents, (0, 0.6, 0.4, 0), strict=True):
        assert share.low <= true <= share.high
    assert detected(found) == [False, True, True, False]
    assert found.remainder > 0.5


def test_copies_of_one_parent_cannot_be_told_apart_and_near_ones_get_no_sure_figure():
    found = shares([A, B, A.copy()], 0.5 * A + 0.5 * B)
    assert values(found) == [None, pytest.approx(0.5, abs=1e-4), None]
    combined = {"it equals another parent, or a combination of others"}
    assert {*shares([A, A.copy()], A).parents} == {*shares([A, B, (A + B) / 2], A).parents} == combined
    near = A + 0.001 * np.random.default_rng(5).standard_normal(A.shape)
    merge = 0.5 * A + 0.5 * B + 0.05 * np.random.default_rng(6).standard_normal(A.shape)
    found = shares([A, near, B], merge)
    assert [share.clear for share in found.parents] == [False, False, True]
    assert detected(found) == [False, False, True]


def test_layers_show_in_whatever_order_and_those_not_read_widen_the_interval():
    places = [[0, 1, 2, 3, 2, 3, 4, 5]] * 2
    found = shares([A, B], np.concatenate([A[:4], B[2:]]), depth=8, places=places)
    first = [round(found.parents[0].layers[number][0], 2) + 0.0 for number in range(8)]
    assert first == [1, 1, 1, 1, 0, 0, 0, 0]
    assert values(found) == pytest.approx([0.5, 0.5], abs=1e-3)
    assert found.remainder < 1e-3
    t = np.linspace(0, 1, LAYERS)[:, None, None]
    merge = (1 - t) * A + t * B
    whole, early = (shares([A, B], merge, depth).parents[0] for depth in (LAYERS, 4 * LAYERS))
    assert early.value == whole.value
    assert early.high - early.low > 2 * (whole.high - whole.low)


def test_a_layer_like_one_parent_counts_for_it_and_a_parent_like_none_has_a_reason():
    places = [[*range(LAYERS)], [0, None, 2, 3, 4, 5]]
    found = shares([A, B], 0.5 * A + 0.5 * B, places=places)
    assert found.parents[0].layers[1] == (1.0, 0.0)
    assert values(found) == pytest.approx([(1 + 5 * 0.5) / 6, 5 * 0.5 / 6], abs=1e-3)
    nowhere, everywhere = [None] * LAYERS, [*range(LAYERS)]
    assert shares([A, B], A, places=[nowhere, nowhere]).parents == (ALIKE, ALIKE)
    found = shares([A, B, C], 0.5 * A + 0.5 * B, places=[everywhere, everywhere, nowhere])
    assert found.parents[2] == OTHER_ORDER
    assert values(found)[:2] == pytest.approx([0.5, 0.5], abs=1e-3)


def products(*parents, model):
    stored = [*enumerate(map(StoredMatrix, parents))]
    return inner_products(3, "mlp", stored, StoredMatrix(model, BF16, spacing(model, BF16)))


def near(size):
    return round_digits((MATRIX + size * RANDOM.standard_normal(MATRIX.shape)).astype(np.float32), BF16)


def test_numbers_are_left_out_where_parents_differ_less_than_the_format_or_are_none():
    model, other = near(0.01), near(0.5)
    other[:8] = MATRIX[:8]
    one = products(MATRIX, other, model=model)
    assert one.gram[0, 0] < (MATRIX[8:].astype(np.float64) ** 2).sum()
    assert one.rounding == pytest.approx(float((spacing(model, BF16)[8:] ** 2).sum()) / 12, rel=0.2)
    assert products(MATRIX, near(1e-4), model=model) is None
    assert MATRIX.size > FEWEST
    broken = MATRIX.copy()
    broken[0, 0] = np.nan
    assert products(MATRIX, near(0.5), model=broken) is None
    assert products(np.zeros_like(MATRIX), model=MATRIX) is None
