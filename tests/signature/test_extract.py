"""Extraction reads a model layer by layer within its memory budget, in exact mode a few columns at a time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hf_lineage.errors import NothingToCompare, OptionError
from hf_lineage.evidence.comparison import compare_paths
from hf_lineage.hub.repo import resolve
from hf_lineage.signature import devices
from hf_lineage.signature.extract import Extraction, Residuals, extract_paths
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.source.headers import headers

HUB = Path(__file__).parents[2] / "examples" / "hub"
ROBUST = RECIPES["robust"]
EXACT = replace(ROBUST, probes=None)


def opened(name):
    opened = headers(resolve(str(HUB / name)))
    return opened.checkpoint, opened.layout


@pytest.fixture(scope="module")
def llama():
    return opened("acme/llama-base")


@pytest.fixture(scope="module")
def pruned():
    return opened("heron/llama-pruned-50")


def megabytes(model, recipe, columns):
    """What the largest layer takes when it is seen through so many columns, and those of all layers with it."""
    extraction = Extraction(*model, recipe, ("mlp",), devices.budgets())
    residuals = 2**27 + 2 * 4 * model[1].layers * model[1].width * columns if recipe is EXACT else 0
    return (max(extraction.working_set(layer, columns) for layer in range(model[1].layers)) + residuals) / 1e6


def test_every_path_of_a_model_is_extracted_in_one_go_as_one_by_one(llama):
    together = extract_paths(*llama, ROBUST, llama[1].paths)
    assert list(together) == ["mlp", "mlp_gate", "value_output", "query_key"]
    for path, found in together.items():
        alone = extract_paths(*llama, ROBUST, (path,))[path]
        np.testing.assert_array_equal(found.sketch, alone.sketch)
        assert found.usable.all()


def test_a_path_that_the_model_has_not_is_nothing_to_compare():
    with pytest.raises(NothingToCompare, match="gpt2 has no path mlp_gate; it has mlp, value_output, query_key"):
        extract_paths(*opened("acme/gpt2-base"), ROBUST, ("mlp_gate",))


def test_the_memory_budget_has_to_hold_one_layer_and_no_more(llama):
    need = megabytes(llama, ROBUST, 64)
    assert extract_paths(*llama, ROBUST, max_memory=f"{need + 0.01:.2f}MB")
    with pytest.raises(OptionError, match="one layer needs"):
        extract_paths(*llama, ROBUST, max_memory=f"{need - 0.01:.2f}MB")
    with pytest.raises(OptionError, match=r"exact mode needs \d+ MiB here; raise HF_LINEAGE_MAX_MEMORY or use probes"):
        extract_paths(*llama, EXACT, max_memory=f"{megabytes(llama, EXACT, 60):.2f}MB")


def test_exact_residuals_that_the_budget_does_not_hold_are_made_some_columns_at_a_time(llama, pruned):
    budget = f"{megabytes(llama, EXACT, 70):.2f}MB"
    whole, parted = (
        [extract_paths(*model, EXACT, max_memory=memory)["mlp"] for model in (llama, pruned)]
        for memory in (None, budget)
    )
    for a, b in zip(whole, parted, strict=True):
        assert isinstance(a.sketch, np.ndarray)
        assert isinstance(b.sketch, Residuals)
        assert 64 <= b.sketch.room <= 70
        assert b.sketch.shape == a.sketch.shape
        np.testing.assert_allclose(b.sketch.columns(slice(3, 9)), a.sketch[:, :, 3:9], atol=1e-6)
        np.testing.assert_allclose(b.norm, a.norm, rtol=1e-7)  # fewer columns are summed in another order, in float32
        np.testing.assert_array_equal(b.corner, a.corner)
        np.testing.assert_array_equal(b.trace, a.trace)
    expected, found = compare_paths(*whole), compare_paths(*parted)
    np.testing.assert_allclose(found.similarity, expected.similarity, atol=1e-6)
    assert found.standard_error == expected.standard_error == 0
    assert compare_paths(whole[0], parted[1]).score == pytest.approx(expected.score)
