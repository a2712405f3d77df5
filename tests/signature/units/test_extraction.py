"""Hidden units of layers, with and without experts, as they are read."""

import numpy as np
import pytest

from hf_lineage import Options, extract
from hf_lineage.checking.source.opening import headers
from hf_lineage.hub.reference import resolve
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.units.extraction import View, known_weights, obstacle, unit_rows
from tests.models import tiny_gpt2, tiny_llama
from tests.streams import HUB

EYE = np.eye(32, dtype=np.float32)


@pytest.mark.parametrize("make", [tiny_llama, tiny_gpt2])
def test_units_are_over_the_norm_of_their_whole_rows(tmp_path, make):
    model = headers(resolve(str(make(tmp_path / "model"))))
    rows = unit_rows(model.checkpoint, model.layout, [1], View(EYE[:8]))
    assert list(rows) == [1]
    whole = unit_rows(model.checkpoint, model.layout, [1], View(EYE))[1]
    assert np.allclose(np.linalg.norm(whole.inner, axis=1), 1, atol=1e-5)
    assert np.allclose(rows[1].outer, whole.outer[:, :8], atol=1e-6)
    assert whole.finite
    levelled = unit_rows(model.checkpoint, model.layout, [1], View(EYE[:8], of_length_one=True))[1]
    assert np.allclose(np.linalg.norm(levelled.inner, axis=1), 1, atol=1e-5)
    assert np.allclose(levelled.inner * np.linalg.norm(rows[1].inner, axis=1)[:, None], rows[1].inner, atol=1e-5)
    assert len(whole.select(slice(3)).weight) == 3


@pytest.mark.parametrize("make", [tiny_llama, tiny_gpt2])
def test_what_units_weigh_is_measured_once_and_is_the_same_in_any_coordinates(tmp_path, make):
    model = headers(resolve(str(make(tmp_path / "model"))))
    known = {}
    first = unit_rows(model.checkpoint, model.layout, [0, 1], View(EYE[:8]), known)
    measured = dict(known)
    own = unit_rows(model.checkpoint, model.layout, [1], View(), known)
    assert (known, list(known)) == (measured, [0, 1])
    assert np.array_equal(own[1].weight, first[1].weight)
    assert np.allclose(own[1].inner[:, :8], first[1].inner, atol=1e-6)


@pytest.mark.parametrize("make", [tiny_llama, tiny_gpt2])
def test_what_units_weigh_by_a_signature_is_what_is_measured(tmp_path, make):
    folder = make(tmp_path / "model")
    model, known = headers(resolve(str(folder))), {}
    unit_rows(model.checkpoint, model.layout, [0, 1], View(EYE), known)
    before = known_weights(extract(str(folder)), model.layout).weights
    assert before.keys() == known.keys()
    for number, (weight,) in known.items():
        assert np.allclose(before[number][0], weight / weight.sum(), rtol=1e-5)


def test_a_signature_by_another_recipe_says_nothing_of_what_units_weigh(tmp_path):
    folder = tiny_llama(tmp_path / "model")
    by_paper = extract(str(folder), Options(recipe=RECIPES["paper"]))
    layout = headers(resolve(str(folder))).layout
    assert (known_weights(by_paper, layout).weights, known_weights(None, layout).weights) == ({}, {})


def test_models_whose_units_are_not_compared_one_by_one_are_a_reason():
    assert obstacle(headers(resolve(str(HUB / "acme/llama-base"))).layout) == ""
