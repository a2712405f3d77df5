"""Extraction gives the centred residual of the method, layer by layer, within its memory budget."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hf_lineage.branches import Term
from hf_lineage.errors import NothingToCompare, OptionError
from hf_lineage.extraction import Probes, extract_paths, stack, summarise, working_sets
from hf_lineage.repo import resolve
from hf_lineage.signature import RECIPES
from hf_lineage.subject import open_model

HUB = Path(__file__).parents[1] / "examples" / "hub"
WIDTH = 10
EXACT = {name: replace(recipe, probes=None, coordinates=4) for name, recipe in RECIPES.items()}


def branch(seed=0, terms=1):
    generator = torch.Generator().manual_seed(seed)
    return [
        Term(torch.randn(WIDTH, 7, generator=generator), torch.randn(7, WIDTH, generator=generator), 1)
        for _ in range(terms)
    ]


def block(terms, recipe):
    return summarise(terms, WIDTH, Probes.of(recipe, WIDTH, torch.device("cpu")), recipe)


def product(terms):
    return sum(term.out.double() @ term.inn.double() for term in terms).numpy()


@pytest.mark.parametrize("terms", [1, 3])
def test_the_paper_recipe_takes_the_trace_out_of_the_sum_of_products(terms):
    m, found = product(branch(terms=terms)), block(branch(terms=terms), EXACT["paper"])
    np.testing.assert_allclose(found.sketch, m - np.trace(m) / WIDTH * np.eye(WIDTH), atol=1e-4)
    assert found.trace == pytest.approx(np.trace(m), rel=1e-5)
    assert found.norm == pytest.approx(np.linalg.norm(m), rel=1e-5)


def test_the_robust_recipe_projects_off_the_identity_and_the_matrix_of_ones():
    m, found = product(branch()), block(branch(), EXACT["robust"])
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


@pytest.fixture(scope="module")
def llama():
    _, checkpoint, layout = open_model(resolve(str(HUB / "acme" / "llama-base")))
    return checkpoint, layout


def test_every_path_of_a_model_is_extracted_in_one_go_as_one_by_one(llama):
    together = extract_paths(*llama, RECIPES["robust"], llama[1].paths)
    assert list(together) == ["mlp", "mlp_gate", "value_output", "query_key"]
    for path, found in together.items():
        alone = extract_paths(*llama, RECIPES["robust"], (path,))[path]
        np.testing.assert_array_equal(found.sketch, alone.sketch)
        assert found.usable.all()


def test_a_path_that_the_model_has_not_is_nothing_to_compare():
    _, checkpoint, layout = open_model(resolve(str(HUB / "acme" / "gpt2-base")))
    with pytest.raises(NothingToCompare, match="gpt2 has no path mlp_gate; it has mlp, value_output, query_key"):
        extract_paths(checkpoint, layout, RECIPES["robust"], ("mlp_gate",))


def test_the_memory_budget_has_to_hold_one_layer_and_no_more(llama):
    checkpoint, layout = llama
    need = max(working_sets(layout, checkpoint.shapes, RECIPES["robust"]))
    assert extract_paths(checkpoint, layout, RECIPES["robust"], max_memory=f"{need // 1000 + 1}KB")
    with pytest.raises(OptionError, match="one layer needs"):
        extract_paths(checkpoint, layout, RECIPES["robust"], max_memory=f"{need // 2000}KB")


def test_no_progress_bar_where_standard_error_is_no_terminal(llama, capfd):
    extract_paths(*llama, RECIPES["robust"])
    assert capfd.readouterr() == ("", "")
