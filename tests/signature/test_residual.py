"""Residuals: a branch capped, centred and seen through the probes, against the same done by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_lineage.signature import matrix_product, residual
from hf_lineage.signature.devices import linear_algebra, workers
from hf_lineage.signature.matrix_product import MatrixProduct, Probes
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.residual import part_norms, summarise, unit_codes
from tests.networks import stack
from tests.properties import cases
from tests.terms import WIDTH, branch, capped, measured_units, product, random, with_norms

EXACT = {name: replace(recipe, probes=None, coordinates=4) for name, recipe in RECIPES.items()}
COUNTS = st.lists(st.integers(1, 5), min_size=1, max_size=3)


def block(terms: list[MatrixProduct], recipe: Any) -> residual.Block:
    with workers() as share:
        return summarise(terms, Probes.draw(recipe, WIDTH), recipe, share)


def assert_traceless(found: residual.Block, m: Any) -> None:
    np.testing.assert_allclose(found.sketch, m - np.trace(m) / WIDTH * np.eye(WIDTH), atol=1e-4)
    assert found.trace == pytest.approx(np.trace(m), rel=1e-4)


def test_the_paper_takes_the_trace_out_and_robust_the_matrix_of_ones_too():
    for terms in (1, 3):
        m, found = product(branch(terms)), block(branch(terms), EXACT["paper"])
        assert_traceless(found, m)
        assert found.norm == pytest.approx(np.linalg.norm(m), rel=1e-5)
    m, found = product(branch()), block(branch(), replace(EXACT["robust"], cap=False))
    basis = np.linalg.qr(np.stack([np.eye(WIDTH).ravel(), np.ones(WIDTH * WIDTH)], axis=1))[0]
    expected = (m.ravel() - basis @ (basis.T @ m.ravel())).reshape(WIDTH, WIDTH)
    np.testing.assert_allclose(found.sketch, expected, atol=1e-4)


@pytest.mark.parametrize("stored", ["out_in", "in_out", "unlike"])
@pytest.mark.parametrize("centred", [False, True])
def test_gains_and_means_are_the_same_in_both_passes_however_large_the_tiles_are(monkeypatch, stored, centred):
    said = {"writer_gain": random(WIDTH, seed=8), "reader_gain": random(WIDTH, seed=9), "centred": centred}
    terms = branch(2, hidden=23, **said)
    if stored != "out_in":
        terms = [replace(term, writer=np.asfortranarray(term.writer)) for term in terms]
    if stored == "in_out":
        terms = [replace(term, reader=np.asfortranarray(term.reader)) for term in terms]
    centre = np.eye(WIDTH) - np.ones((WIDTH, WIDTH)) / WIDTH if centred else np.eye(WIDTH)
    gains = (np.diag(said[name].astype(np.float64)) for name in ("writer_gain", "reader_gain"))
    out, inn = (centre @ next(gains), next(gains) @ centre)
    m = sum(out @ t.writer.astype(np.float64) @ t.reader.astype(np.float64) @ inn for t in terms)
    for size in (1, 4, 64):
        monkeypatch.setattr(matrix_product, "TILE", size * WIDTH)
        monkeypatch.setattr(residual, "ROWS", size)
        monkeypatch.setattr(residual, "UNITS", size)
        assert_traceless(block(terms, EXACT["paper"]), m)


def test_the_same_bits_come_out_with_any_number_of_threads():
    found = []
    for threads in (1, 3):
        with linear_algebra().limit(limits=threads):
            found.append(block(branch(2, hidden=700), EXACT["robust"]))
    for part in ("sketch", "corner", "trace", "norm"):
        np.testing.assert_array_equal(getattr(found[0], part), getattr(found[1], part))


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e38])
def test_a_branch_that_is_not_finite_is_marked_and_kept_out(poison):
    (term,) = branch()
    term.writer[0, 0] = poison
    term.reader[0] = poison
    found = stack([block([term], EXACT["paper"]), block(branch(), EXACT["paper"])])
    assert found.usable.tolist() == [False, True]
    assert np.isfinite(found.sketch).all()


def test_the_cap_acts_on_whole_heads_and_lets_a_unit_count_as_the_median_at_most():
    (whole,) = branch(hidden=9, part=3)
    huge = replace(whole, writer=np.concatenate([1000 * whole.writer[:, :3], whole.writer[:, 3:]], axis=1))
    norms = part_norms(huge.out.mT, huge.inn, 3)
    assert capped([huge]) == pytest.approx(np.minimum(norms, np.median(norms)).tolist(), rel=1e-5)
    factors = np.repeat(np.minimum(1, np.median(norms) / norms), 3).astype(np.float32)
    capped_by_hand = product([replace(huge, writer=huge.writer * factors)])
    assert_traceless(block([huge], replace(EXACT["paper"], cap=True)), capped_by_hand)
    assert capped([with_norms([1.0, 1.0, 1.0, 2.0, 1000.0])]) == [1.0] * 5
    assert capped([with_norms([1.0, 3.0, 5.0, 7.0])]) == [1.0, 3.0, 3.0, 3.0]
    assert capped([with_norms([0.0, 0.0, 0.0, 0.0, 3.0, 3.0, 30.0])]) == [0.0, 0.0, 0.0, 0.0, 3.0, 3.0, 3.0]
    assert capped([with_norms([0.0, 0.0, 0.0])]) == [0.0, 0.0, 0.0]
    for weight in (float("inf"), float("nan")):  # which is not capped into a number
        assert not np.isfinite(capped([with_norms([1.0, 1.0, weight])])[-1])


def test_one_unit_that_overflows_only_as_a_product_does_not_get_past_the_cap():
    """A writer of 1e30 beside a reader of 1e-24: the unit weighs 1e6, and its squares leave the range of float32."""
    (plain,) = branch(hidden=40)
    writer, reader = plain.writer.copy(), plain.reader.copy()
    writer[:, 0], reader[0] = 1e30, 1e-24
    hidden = block([replace(plain, writer=writer, reader=reader)], EXACT["robust"])
    shown = block([plain], EXACT["robust"])
    assert np.isfinite(hidden.norm)
    cosine = float((hidden.sketch * shown.sketch).sum() / np.linalg.norm(hidden.sketch) / np.linalg.norm(shown.sketch))
    assert cosine > 0.7


@cases(60)
@given(COUNTS, st.integers(0, 40), st.integers(0, 40), st.integers(0, 2**32))
def test_signs_are_packed_as_they_are_and_what_fills_no_byte_is_left_out(counts, inner, outer, seed):
    """Experts one after the other; bits that a byte were filled with would agree in any two units."""
    random = np.random.default_rng(seed)
    signs = {side: random.random((sum(counts), size)) < 0.5 for side, size in (("inner", inner), ("outer", outer))}
    parts = zip(*(np.split(rows, np.cumsum(counts)[:-1]) for rows in signs.values()), strict=True)
    measured = measured_units(*(with_norms([1.0] * count) for count in counts))
    pairs = zip(measured, parts, strict=True)
    codes = unit_codes([replace(units, inner=mine, outer=other) for units, (mine, other) in pairs])
    for side, rows in signs.items():
        whole = rows.shape[1] // 8 * 8
        packed = getattr(codes, side)
        assert packed.shape == (sum(counts), whole // 8)
        np.testing.assert_array_equal(np.unpackbits(packed, axis=1), rows[:, :whole])


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e12, 1e30])
def test_the_norm_of_a_part_is_that_of_its_product_and_does_not_overflow_or_vanish(size):
    size = np.float32(size)
    out, inn = random(8, WIDTH), random(8, WIDTH, seed=1)
    by_hand = [np.linalg.norm(out[part].T @ inn[part]) for part in (slice(4), slice(4, 8))]
    np.testing.assert_allclose(part_norms(out, inn, 4), by_hand, rtol=1e-6)
    units = [np.linalg.norm(np.outer(a, b)) for a, b in zip(out, inn, strict=True)]
    np.testing.assert_allclose(part_norms(out, inn, 1), units, rtol=1e-6)
    np.testing.assert_allclose(part_norms(size * out, inn / size, 4), part_norms(out, inn, 4), rtol=1e-5)
    (plain,) = branch()
    (scaled,) = measured_units(replace(plain, writer=size * plain.writer, reader=plain.reader / size))
    np.testing.assert_allclose(scaled.norm, measured_units(plain)[0].norm, rtol=1e-5)


def test_a_part_that_is_shut_adds_nothing_though_it_is_too_large_for_float32():
    (found,) = measured_units(*branch(hidden=8))
    scaled = [getattr(found, name) for name in ("projection", "corner", "trace", "total")]
    for part in scaled:
        part[0] = np.inf
    found.norm[0] = 1e300
    with np.errstate(invalid="ignore"):
        found.scale(np.array([0.0] + [1.0] * 7))
    for part in (found.projection, found.corner, found.trace, found.total, found.norm):
        assert not part[0].any()
        assert np.isfinite(part).all()
    for poison in (np.nan, np.inf):  # which cannot be scaled away
        found.norm[3] = poison
        with np.errstate(invalid="ignore"):
            found.scale(np.zeros(8))
        assert np.isfinite(found.norm).tolist() == [number != 3 for number in range(8)]
