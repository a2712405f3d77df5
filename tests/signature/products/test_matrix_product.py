"""A term is prepared piece by piece as it would be as a whole, and norms are right where squares are not."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.signature.computing.devices import alone
from hf_lineage.signature.products import matrix_product
from hf_lineage.signature.products.matrix_product import Rows, row_norms
from tests.terms import WIDTH, branch, random


def lengths(rows):
    """The Euclidean norm of every row, in float64."""
    return np.linalg.norm(rows.astype(np.float64), axis=1)


@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e-20, 1.0, 1e18, 1e30])
def test_the_norm_of_a_row_is_right_where_its_square_leaves_float32(size):
    rows = np.float32(size) * random(3, WIDTH)
    with np.errstate(all="ignore"):  # as in the workers
        np.testing.assert_allclose(row_norms(rows), lengths(rows), rtol=1e-6)


def test_the_norm_of_a_row_without_weight_is_zero_and_of_one_that_is_not_finite_none():
    rows = np.array([[0], [np.inf], [np.nan]], np.float32).repeat(WIDTH, axis=1)
    zero, infinite, nothing = row_norms(rows).tolist()
    assert (zero, infinite) == (0.0, np.inf)
    assert np.isnan(nothing)


def test_rows_are_measured_with_the_gain_folded_in_and_the_mean_removed():
    stored, gain, shift = random(5, WIDTH), random(WIDTH, seed=1), random(WIDTH, seed=2)
    norms, offsets = Rows(stored, gain, centred=True, shift=shift).measured(alone)
    folded = stored.astype(np.float64) * gain
    np.testing.assert_allclose(norms, lengths(folded - folded.mean(axis=1, keepdims=True)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(offsets, stored.astype(np.float64) @ shift, rtol=1e-5, atol=1e-6)


def test_rows_are_measured_alike_however_many_there_are_at_a_time(monkeypatch):
    rows = Rows(random(23, WIDTH), random(WIDTH, seed=1), centred=True)
    whole, _ = rows.measured(alone)
    monkeypatch.setattr(matrix_product, "TILE", 4 * WIDTH)
    np.testing.assert_allclose(rows.measured(alone)[0], whole, rtol=1e-7)


@pytest.mark.parametrize("size", [1, 3, 64])
def test_tiles_hold_every_unit_once_and_whole_parts(monkeypatch, size):
    monkeypatch.setattr(matrix_product, "TILE", size * WIDTH)
    (heads,) = branch(hidden=12, part=3)
    tiles = [(tile.units, tile.out.copy()) for tile in heads.tiles()]
    assert [unit for units, _ in tiles for unit in range(12)[units]] == list(range(12))
    assert all(len(range(12)[units]) % 3 == 0 for units, _ in tiles)
    np.testing.assert_array_equal(np.concatenate([out for _, out in tiles]), heads.writer.mT)


def test_nothing_is_measured_inside_an_activation_that_nobody_names():
    (plain,) = branch(hidden=8)
    assert all(tile.inside is None for tile in plain.tiles())


@pytest.mark.parametrize("rows", [None, Rows(random(8, WIDTH, seed=9), random(WIDTH, seed=3))])
def test_what_is_inside_an_activation_is_the_reader_unless_other_rows_are_named(rows):
    (plain,) = branch(hidden=8)
    named = replace(plain, inside=matrix_product.Inside(lambda spread, centre: spread, rows))
    norms = np.concatenate([tile.inside[0] for tile in named.tiles()])
    inside = plain.reader if rows is None else rows.stored * rows.gain
    np.testing.assert_allclose(norms, lengths(inside), rtol=1e-6)


@pytest.mark.parametrize("size", [1e-24, 1.0, 1e30])
@pytest.mark.parametrize("centred", [False, True])
def test_norms_of_rows_are_right_where_squares_leave_the_range_of_float32(size, centred):
    rows = Rows(np.float32(size) * random(5, WIDTH), random(WIDTH, seed=1), centred)
    prepared = rows.stored.astype(np.float64) * rows.gain
    expected = lengths(prepared - prepared.mean(axis=1, keepdims=True) if centred else prepared)
    with np.errstate(all="ignore"):  # as in the workers
        np.testing.assert_allclose(rows.measured(alone)[0], expected, rtol=1e-5)
