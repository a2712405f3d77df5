"""What every unit adds to a branch, and the cap: nothing that writes little, and nothing that overflows, moves it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_lineage.signature.products.term import Inside, Rows
from hf_lineage.signature.recipe import UNIT_SIGNS
from hf_lineage.signature.units.statistics import part_norms, unit_codes, unit_dots
from tests.properties import cases
from tests.terms import WIDTH, branch, capped, random, surveyed, with_norms


@pytest.mark.parametrize("count", [1, 7, 16, 40])
def test_the_inner_product_of_every_unit_is_that_of_its_two_rows(count):
    out, inn = random(count, WIDTH), random(count, WIDTH, seed=1)
    expected = (out.astype(np.float64) * inn).sum(axis=1)
    np.testing.assert_allclose(unit_dots(out, inn), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(unit_dots(np.asfortranarray(out), inn), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(unit_dots(np.asfortranarray(out), np.asfortranarray(inn)), expected, 1e-5, 1e-5)


def test_the_norm_of_a_part_is_that_of_its_own_product():
    out, inn = random(8, WIDTH), random(8, WIDTH, seed=1)
    by_hand = [np.linalg.norm(out[part].T @ inn[part]) for part in (slice(4), slice(4, 8))]
    np.testing.assert_allclose(part_norms(out, inn, 4), by_hand, rtol=1e-6)
    units = [np.linalg.norm(np.outer(a, b)) for a, b in zip(out, inn, strict=True)]
    np.testing.assert_allclose(part_norms(out, inn, 1), units, rtol=1e-6)


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e12, 1e30])
def test_the_norm_of_a_part_neither_overflows_nor_vanishes(size):
    size = np.float32(size)
    out, inn = random(8, WIDTH), random(8, WIDTH, seed=1)
    np.testing.assert_allclose(part_norms(size * out, inn / size, 4), part_norms(out, inn, 4), rtol=1e-5)
    (plain,) = branch()
    (scaled,) = surveyed(replace(plain, writer=size * plain.writer, reader=plain.reader / size))
    np.testing.assert_allclose(scaled.norm, surveyed(plain)[0].norm, rtol=1e-5)


def test_the_norm_of_a_part_without_weight_is_zero():
    assert part_norms(np.zeros((4, WIDTH), np.float32), random(4, WIDTH), 2).tolist() == [0.0, 0.0]


def test_a_unit_with_huge_weights_is_scaled_to_twice_the_median():
    assert capped([with_norms([1.0, 1.0, 1.0, 2.0, 1000.0])]) == [1.0, 1.0, 1.0, 2.0, 2.0]


def test_units_without_weight_do_not_count_for_the_median():
    assert capped([with_norms([0.0, 0.0, 0.0, 0.0, 3.0, 3.0, 30.0])]) == [0.0, 0.0, 0.0, 0.0, 3.0, 3.0, 6.0]


@pytest.mark.parametrize("median", ["units", "norm"])
def test_a_branch_without_weight_stays_without(median):
    assert capped([with_norms([0.0, 0.0, 0.0])], median) == [0.0, 0.0, 0.0]


def test_the_median_is_taken_over_all_the_experts_together():
    assert capped([with_norms([norm]) for norm in (1.0, 1.0, 1.0, 50.0)]) == [1.0, 1.0, 1.0, 2.0]


def test_half_of_the_norm_lies_in_units_up_to_its_median():
    # 1 + 1 + 2 + 3 of 14 is half.
    assert capped([with_norms([1.0, 1.0, 2.0, 3.0, 7.0])], "norm") == [1.0, 1.0, 2.0, 3.0, 6.0]


@pytest.mark.parametrize("small", [10, 1000])
def test_units_that_write_little_move_the_median_of_the_norm_by_nothing_however_many_there_are(small):
    large = [2.0, 2.0, 2.0, 5.0]
    assert capped([with_norms([1e-6] * small + large)], "norm")[small:] == [2.0, 2.0, 2.0, 4.0]
    assert capped([with_norms([1e-6] * small + large)], "units")[small:] == pytest.approx([2e-6] * 4)


def test_splitting_a_unit_moves_the_median_of_the_norm_by_nothing_that_matters():
    whole = capped([with_norms([1.0] * 100 + [50.0])], "norm")
    split = capped([with_norms([1.0] * 99 + [0.01] * 100 + [50.0])], "norm")
    assert (whole[-1], split[-1]) == (2.0, 2.0)


@pytest.mark.parametrize("weight", [float("inf"), float("nan")])
def test_a_unit_that_is_not_finite_is_not_capped_into_a_number(weight):
    for median in ("units", "norm"):
        assert not np.isfinite(capped([with_norms([1.0, 1.0, weight])], median)[-1])


def inside(expected, **said):
    """Terms whose units are as active as is said of their spread and centre."""
    (plain,) = branch(hidden=4)
    return replace(plain, inside=Inside(expected, **said))


def test_a_unit_weighs_what_it_is_expected_to_write():
    (plain,) = branch(hidden=4)
    weighed, whole = surveyed(inside(lambda spread, centre: np.array([0.5, 0.0, -0.25, 1.0]))), surveyed(plain)
    factors = np.array([0.5, 0.0, -0.25, 1.0], np.float32)
    np.testing.assert_allclose(weighed[0].norm, whole[0].norm * abs(factors), rtol=1e-7)
    np.testing.assert_array_equal(weighed[0].seen, whole[0].seen * factors[:, None])
    np.testing.assert_array_equal(weighed[0].trace, whole[0].trace * factors)


def test_spread_and_centre_are_those_of_the_rows_inside():
    rows = Rows(random(4, WIDTH, seed=5), random(WIDTH, seed=6), centred=True, shift=random(WIDTH, seed=7))
    given = {}

    def expected(spread, centre):
        given.update(spread=spread, centre=centre)
        return np.ones(4)

    surveyed(inside(expected, rows=rows, bias=np.arange(4, dtype=np.float32)))
    folded = rows.stored.astype(np.float64) * rows.gain
    folded -= folded.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(given["spread"], np.linalg.norm(folded, axis=1), rtol=1e-5)
    expected = rows.stored.astype(np.float64) @ rows.shift + np.arange(4)
    np.testing.assert_allclose(given["centre"], expected, rtol=1e-5, atol=1e-5)


def first_unit(size):
    """A term whose first unit never fires and has weights of a size."""
    dead = inside(lambda spread, centre: np.array([0.0, 1.0, 1.0, 1.0]))
    writer, reader = dead.writer.copy(), dead.reader.copy()
    writer[:, 0], reader[0] = size, size
    return replace(dead, writer=writer, reader=reader)


def test_a_unit_that_never_fires_adds_nothing_though_its_product_is_too_large_for_float32():
    (found,) = surveyed(first_unit(1e30))
    assert (found.norm[0], found.trace[0]) == (0, 0)
    assert not found.seen[0].any()


@pytest.mark.parametrize("size", [float("inf"), float("nan")])
def test_a_unit_that_is_no_finite_number_stays_none_though_it_never_fires(size):
    (found,) = surveyed(first_unit(size))
    assert np.isnan(found.norm[0])


def test_a_head_is_weighed_by_what_it_writes():
    (heads,), (writes,) = branch(hidden=6, part=3), branch(hidden=6, part=3)
    (whole,), (weighed,) = surveyed(heads), surveyed(replace(heads, weigh=replace(writes, writer=2 * writes.writer)))
    np.testing.assert_allclose(weighed.norm, whole.norm * 2 * part_norms(writes.writer.mT, writes.reader, 3), rtol=1e-6)


def test_codes_keep_what_share_of_the_layer_a_unit_writes_and_its_signs():
    codes = unit_codes(surveyed(with_norms([1.0, 3.0]), with_norms([4.0])))
    np.testing.assert_allclose(codes.weight, [0.125, 0.375, 0.5])
    assert (codes.inner.shape, codes.outer.shape) == ((3, UNIT_SIGNS // 8), (3, UNIT_SIGNS // 8))


def test_units_that_are_not_finite_write_no_share_of_anything():
    assert unit_codes(surveyed(with_norms([1.0, float("inf")]))).weight.tolist() == [0.0, 0.0]


@cases(60)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(0, 40), st.integers(0, 40), st.integers(0, 2**32)
)
def test_signs_are_packed_as_they_are_and_what_fills_no_byte_is_left_out(counts, inner, outer, seed):
    """Experts one after the other; bits that a byte were filled with would agree in any two units."""
    random = np.random.default_rng(seed)
    signs = {side: random.random((sum(counts), size)) < 0.5 for side, size in (("inner", inner), ("outer", outer))}
    ends = np.cumsum(counts)[:-1]
    parts = {side: np.split(rows, ends) for side, rows in signs.items()}
    units = [
        replace(units, **{side: rows[number] for side, rows in parts.items()})
        for number, units in enumerate(surveyed(*(with_norms([1.0] * count) for count in counts)))
    ]
    codes = unit_codes(units)
    for side, rows in signs.items():
        whole = rows.shape[1] // 8 * 8
        packed = getattr(codes, side)
        assert packed.shape == (sum(counts), whole // 8)
        np.testing.assert_array_equal(np.unpackbits(packed, axis=1), rows[:, :whole])
