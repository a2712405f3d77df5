"""Residuals: a branch capped, centred and seen through the probes, against the same done by hand on whole matrices."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hf_lineage.signature.computing.parallel import linear_algebra, workers
from hf_lineage.signature.products import residual, term
from hf_lineage.signature.products.residual import Probes, summarise
from hf_lineage.signature.products.term import Term
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.units.statistics import part_norms
from tests.networks import stack
from tests.terms import WIDTH, branch, capped, product, random

EXACT = {name: replace(recipe, probes=None, coordinates=4) for name, recipe in RECIPES.items()}


def block(terms: list[Term], recipe: Any, columns: slice = slice(None)) -> residual.Block:
    with workers() as share:
        return summarise(terms, Probes.of(recipe, WIDTH, columns=columns), recipe, share)


@pytest.mark.parametrize("terms", [1, 3])
def test_the_paper_recipe_takes_the_trace_out_of_the_sum_of_products(terms):
    m, found = product(branch(terms)), block(branch(terms), EXACT["paper"])
    np.testing.assert_allclose(found.sketch, m - np.trace(m) / WIDTH * np.eye(WIDTH), atol=1e-4)
    assert found.trace == pytest.approx(np.trace(m), rel=1e-5)
    assert found.norm == pytest.approx(np.linalg.norm(m), rel=1e-5)


def test_the_robust_recipe_projects_off_the_identity_and_the_matrix_of_ones():
    m, found = product(branch()), block(branch(), replace(EXACT["robust"], cap=None))
    basis = np.linalg.qr(np.stack([np.eye(WIDTH).ravel(), np.ones(WIDTH * WIDTH)], axis=1))[0]
    expected = (m.ravel() - basis @ (basis.T @ m.ravel())).reshape(WIDTH, WIDTH)
    np.testing.assert_allclose(found.sketch, expected, atol=1e-4)


@pytest.mark.parametrize("recipe", list(EXACT))
def test_the_corner_is_the_residual_on_the_test_coordinates(recipe):
    chosen = EXACT[recipe].test_coordinates(WIDTH)
    found = block(branch(), EXACT[recipe])
    np.testing.assert_allclose(found.corner, found.sketch[np.ix_(chosen, chosen)], atol=1e-5)


@pytest.mark.parametrize("recipe", list(EXACT))
def test_a_sketch_is_the_residual_times_the_probes(recipe):
    sketched = replace(EXACT[recipe], probes=3)
    expected = block(branch(), EXACT[recipe]).sketch @ sketched.probe_matrix(WIDTH)
    np.testing.assert_allclose(block(branch(), sketched).sketch, expected, atol=1e-4)


@pytest.mark.parametrize("recipe", list(EXACT))
def test_some_columns_of_the_identity_show_those_columns_of_the_residual(recipe):
    whole = block(branch(), EXACT[recipe])
    for columns in (slice(0, 4), slice(4, 8), slice(8, 12)):
        some = block(branch(), EXACT[recipe], columns)
        np.testing.assert_allclose(some.sketch, whole.sketch[:, columns], rtol=1.3e-6, atol=1e-5)
        np.testing.assert_allclose(some.corner, whole.corner, rtol=1.3e-6, atol=1e-5)
        assert some.trace == whole.trace


@pytest.mark.parametrize("stored", ["out_in", "in_out"])
@pytest.mark.parametrize("centred", [False, True])
def test_gains_and_means_are_the_same_in_both_passes_however_large_the_tiles_are(monkeypatch, stored, centred):
    said = {"writer_gain": random(WIDTH, seed=8), "reader_gain": random(WIDTH, seed=9), "centred": centred}
    terms = branch(2, hidden=23, **said)
    if stored == "in_out":
        terms = [replace(t, writer=np.asfortranarray(t.writer), reader=np.asfortranarray(t.reader)) for t in terms]
    centre = np.eye(WIDTH) - np.ones((WIDTH, WIDTH)) / WIDTH if centred else np.eye(WIDTH)
    gains = (np.diag(said[name].astype(np.float64)) for name in ("writer_gain", "reader_gain"))
    out, inn = (centre @ next(gains), next(gains) @ centre)
    m = sum(out @ t.writer.astype(np.float64) @ t.reader.astype(np.float64) @ inn for t in terms)
    for size in (1, 4, 64):
        monkeypatch.setattr(term, "TILE", size * WIDTH)
        monkeypatch.setattr(residual, "ROWS", size)
        monkeypatch.setattr(residual, "UNITS", size)
        found = block(terms, EXACT["paper"])
        np.testing.assert_allclose(found.sketch, m - np.trace(m) / WIDTH * np.eye(WIDTH), atol=1e-4)
        assert found.trace == pytest.approx(np.trace(m), rel=1e-4)


def test_the_same_bits_come_out_with_any_number_of_threads():
    found = []
    for threads in (1, 3):
        with linear_algebra().limit(limits=threads):
            found.append(block(branch(2, hidden=700), EXACT["robust"]))
    np.testing.assert_array_equal(found[0].sketch, found[1].sketch)
    np.testing.assert_array_equal(found[0].corner, found[1].corner)
    assert (found[0].trace, found[0].norm) == (found[1].trace, found[1].norm)


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e38])
def test_a_branch_that_is_not_finite_is_marked_and_kept_out(poison):
    (term,) = branch()
    term.writer[0, 0] = poison
    term.reader[0] = poison
    found = stack([block([term], EXACT["paper"]), block(branch(), EXACT["paper"])])
    assert found.usable.tolist() == [False, True]
    assert np.isfinite(found.sketch).all()


def test_a_branch_of_zeros_is_marked():
    found = stack([block([Term(np.zeros((WIDTH, 7), np.float32), random(7, WIDTH), 1)], EXACT["paper"])])
    assert found.usable.tolist() == [False]


def test_the_cap_acts_on_whole_heads_and_on_everything_that_is_kept_of_them():
    (whole,) = branch(hidden=9, part=3)
    huge = replace(whole, writer=np.concatenate([1000 * whole.writer[:, :3], whole.writer[:, 3:]], axis=1))
    norms = capped([huge])
    assert norms[1:] == pytest.approx(capped([whole])[1:])
    assert norms[0] == pytest.approx(2 * sorted(norms)[1], rel=1e-5)
    factor = norms[0] / (1000 * float(part_norms(whole.out.mT, whole.inn, 3)[0]))
    m = product([replace(huge, writer=np.concatenate([factor * huge.writer[:, :3], huge.writer[:, 3:]], axis=1))])
    found = block([huge], replace(EXACT["paper"], cap=2.0))
    np.testing.assert_allclose(found.sketch, m - np.trace(m) / WIDTH * np.eye(WIDTH), atol=1e-4)
    assert found.trace == pytest.approx(np.trace(m), rel=1e-4)


def writing(size: float, epsilon: float = 1e-6) -> float:
    """What a norm with gains of one lets through of a branch that is given so large."""
    return float(WIDTH**0.5 * size / (size**2 + epsilon) ** 0.5)


def test_a_branch_writes_what_its_units_write_together():
    pairs = (pair for t in branch(2) for pair in zip(t.out.mT, t.inn, strict=True))
    units = np.linalg.norm([np.linalg.norm(out) * np.linalg.norm(inn) for out, inn in pairs])
    assert block(branch(2), EXACT["robust"]).writes == pytest.approx(units)
    assert block(branch(2), EXACT["paper"]).writes == pytest.approx(units)


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-9])
def test_a_branch_behind_a_norm_writes_what_the_norm_lets_through(size):
    (plain,) = branch()
    scaled = replace(plain, writer=np.float32(size) * plain.writer, normed=True, writer_gain=np.ones(WIDTH, np.float32))
    given = np.linalg.norm(product([scaled])) / WIDTH**0.5
    assert block([scaled], EXACT["paper"]).writes == pytest.approx(writing(given), rel=1e-4)


def test_a_norm_without_gain_lets_nothing_through():
    (plain,) = branch()
    shut = replace(plain, normed=True, writer_gain=np.zeros(WIDTH, np.float32))
    assert block([shut], EXACT["paper"]).writes == 0


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
