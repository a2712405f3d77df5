"""Residuals: a branch capped, centred and seen through the probes, against the same done by hand on whole matrices."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from hf_lineage import branches, residual
from hf_lineage.branches import Term
from hf_lineage.recipe import RECIPES
from hf_lineage.residual import Probes, part_norms, summarise, survey, unit_dots
from hf_lineage.threads import workers
from tests.networks import stack

WIDTH = 10
CPU = torch.device("cpu")
EXACT = {name: replace(recipe, probes=None, coordinates=4) for name, recipe in RECIPES.items()}
CAPPED = replace(EXACT["paper"], cap=2.0)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def branch(terms: int = 1, hidden: int = 7, **said: Any) -> list[Term]:
    return [
        Term(random(WIDTH, hidden, seed=2 * number), random(hidden, WIDTH, seed=2 * number + 1), **{"part": 1} | said)
        for number in range(terms)
    ]


def block(terms: list[Term], recipe: Any, columns: slice = slice(None)) -> residual.Block:
    with workers() as share:
        return summarise(terms, Probes.of(recipe, WIDTH, CPU, columns), recipe, share)


def product(terms: list[Term]) -> Any:
    return torch.stack([term.out.double() @ term.inn.double() for term in terms]).sum(dim=0).numpy()


def capped(terms: list[Term]) -> list[float]:
    """The norm of every part after the cap of two medians, from the product of that part alone."""
    with workers() as share:
        units = [survey(term, Probes.of(CAPPED, WIDTH, CPU), share) for term in terms]
    residual.cap(units, 2.0)
    return [norm for found in units for norm in found.norm.tolist()]


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


@pytest.mark.parametrize("recipe", ["paper", "robust"])
def test_the_corner_is_the_residual_on_the_test_coordinates(recipe):
    chosen = EXACT[recipe].test_coordinates(WIDTH)
    found = block(branch(), EXACT[recipe])
    np.testing.assert_allclose(found.corner, found.sketch[np.ix_(chosen, chosen)], atol=1e-5)


@pytest.mark.parametrize("recipe", ["paper", "robust"])
def test_a_sketch_is_the_residual_times_the_probes(recipe):
    sketched = replace(EXACT[recipe], probes=3)
    expected = block(branch(), EXACT[recipe]).sketch.numpy() @ sketched.probe_matrix(WIDTH)
    np.testing.assert_allclose(block(branch(), sketched).sketch, expected, atol=1e-4)


@pytest.mark.parametrize("recipe", ["paper", "robust"])
def test_some_columns_of_the_identity_show_those_columns_of_the_residual(recipe):
    whole = block(branch(), EXACT[recipe])
    for columns in (slice(0, 4), slice(4, 8), slice(8, 12)):
        some = block(branch(), EXACT[recipe], columns)
        torch.testing.assert_close(some.sketch, whole.sketch[:, columns])
        torch.testing.assert_close(some.corner, whole.corner)
        assert some.trace == whole.trace


@pytest.mark.parametrize("stored", ["out_in", "in_out"])
@pytest.mark.parametrize("centred", [False, True])
def test_gains_and_means_are_the_same_in_both_passes_however_large_the_tiles_are(monkeypatch, stored, centred):
    said = {"writer_gain": random(WIDTH, seed=8), "reader_gain": random(WIDTH, seed=9), "centred": centred}
    terms = branch(2, hidden=23, **said)
    if stored == "in_out":
        terms = [replace(t, writer=t.writer.mT.contiguous().mT, reader=t.reader.mT.contiguous().mT) for t in terms]
    centre = np.eye(WIDTH) - np.ones((WIDTH, WIDTH)) / WIDTH if centred else np.eye(WIDTH)
    gains = (np.diag(said[name].double()) for name in ("writer_gain", "reader_gain"))
    out, inn = (centre @ next(gains), next(gains) @ centre)
    m = sum(out @ (t.writer.double() @ t.reader.double()).numpy() @ inn for t in terms)
    for size in (1, 4, 64):
        monkeypatch.setattr(branches, "TILE", size * WIDTH)
        monkeypatch.setattr(residual, "ROWS", size)
        monkeypatch.setattr(residual, "UNITS", size)
        found = block(terms, EXACT["paper"])
        np.testing.assert_allclose(found.sketch, m - np.trace(m) / WIDTH * np.eye(WIDTH), atol=1e-4)
        assert found.trace == pytest.approx(np.trace(m), rel=1e-4)


def test_the_same_bits_come_out_with_any_number_of_threads():
    found = []
    for threads in (1, 3):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        found.append(block(branch(2, hidden=700), EXACT["robust"]))
        torch.set_num_threads(before)
    assert torch.equal(found[0].sketch, found[1].sketch)
    assert torch.equal(found[0].corner, found[1].corner)
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
    found = stack([block([Term(torch.zeros(WIDTH, 7), torch.randn(7, WIDTH), 1)], EXACT["paper"])])
    assert found.usable.tolist() == [False]


@pytest.mark.parametrize("count", [1, 7, 16, 40])
def test_the_inner_product_of_every_unit_is_that_of_its_two_rows(count):
    out, inn = random(count, WIDTH), random(count, WIDTH, seed=1)
    expected = (out * inn).sum(dim=1)
    torch.testing.assert_close(unit_dots(out, inn), expected)
    torch.testing.assert_close(unit_dots(out.mT.contiguous().mT, inn), expected)


def test_the_norm_of_a_part_is_that_of_its_own_product():
    out, inn = random(8, WIDTH), random(8, WIDTH, seed=1)
    by_hand = torch.stack([(out[:4].T @ inn[:4]).norm(), (out[4:].T @ inn[4:]).norm()])
    torch.testing.assert_close(part_norms(out, inn, 4), by_hand)
    units = torch.stack([torch.outer(a, b).norm() for a, b in zip(out, inn, strict=True)])
    torch.testing.assert_close(part_norms(out, inn, 1), units)


def with_norms(norms: list[float]) -> Term:
    """Units of given norms."""
    reader, writer = torch.zeros(len(norms), WIDTH), torch.zeros(WIDTH, len(norms))
    reader[:, 0] = torch.tensor(norms)
    writer[1] = 1.0
    return Term(writer, reader, 1)


def test_a_unit_with_huge_weights_is_scaled_to_twice_the_median():
    assert capped([with_norms([1.0, 1.0, 1.0, 2.0, 1000.0])]) == [1.0, 1.0, 1.0, 2.0, 2.0]


def test_units_without_weight_do_not_count_for_the_median():
    assert capped([with_norms([0.0, 0.0, 0.0, 0.0, 3.0, 3.0, 30.0])]) == [0.0, 0.0, 0.0, 0.0, 3.0, 3.0, 6.0]


def test_a_branch_without_weight_stays_without():
    assert capped([with_norms([0.0, 0.0, 0.0])]) == [0.0, 0.0, 0.0]


def test_the_median_is_taken_over_all_the_experts_together():
    assert capped([with_norms([norm]) for norm in (1.0, 1.0, 1.0, 50.0)]) == [1.0, 1.0, 1.0, 2.0]


def test_the_cap_acts_on_whole_heads_and_on_everything_that_is_kept_of_them():
    (term,) = branch(hidden=9, part=3)
    huge = replace(term, writer=torch.cat([1000 * term.writer[:, :3], term.writer[:, 3:]], dim=1))
    norms = capped([huge])
    assert norms[1:] == pytest.approx(capped([term])[1:])
    assert norms[0] == pytest.approx(2 * sorted(norms)[1], rel=1e-5)
    factor = norms[0] / (1000 * part_norms(term.out.mT, term.inn, 3)[0].item())
    m = product([replace(huge, writer=torch.cat([factor * huge.writer[:, :3], huge.writer[:, 3:]], dim=1))])
    found = block([huge], CAPPED)
    np.testing.assert_allclose(found.sketch, m - np.trace(m) / WIDTH * np.eye(WIDTH), atol=1e-4)
    assert found.trace == pytest.approx(np.trace(m), rel=1e-4)
