"""A sample: the signature of the drawn units and coordinates alone, which no file can foresee."""

from dataclasses import replace

import numpy as np
import pytest
from safetensors.torch import load_file

from hf_lineage.checkpoint.tensor import StoredTensor
from hf_lineage.evidence.comparison import compare_paths
from hf_lineage.signature import sample as sampling
from hf_lineage.signature.extract import extract_paths
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.sample import Sample, fits, indices, runs, sample_path
from hf_lineage.signature.values import SampleSize
from tests import models
from tests.models import WEIGHTS, fine_tuned, spoil, tiny_gpt2, tiny_llama
from tests.signature.test_extract import opened
from tests.streams import shuffled

WIDTH, HIDDEN, LAYERS = 128, 512, 3
DRAW = Sample(seed=3)
ROBUST, PAPER = RECIPES["robust"], RECIPES["paper"]
EXACT = replace(ROBUST, probes=None)
ALL = Sample(seed=3, all_units=True)


@pytest.fixture
def llama(tmp_path, monkeypatch):
    """A Llama of which an eighth of the units and a quarter of the coordinates are drawn."""
    monkeypatch.setattr(sampling, "UNITS", 64)
    monkeypatch.setattr(sampling, "RUN", 8)
    monkeypatch.setattr(sampling, "COORDINATES", 32)
    monkeypatch.setattr(models, "HIDDEN", HIDDEN)
    return tiny_llama(tmp_path / "llama", layers=LAYERS, width=WIDTH)


def seen(folder, recipe=ROBUST, draw=DRAW):
    return sample_path(*opened(folder), recipe, "mlp", range(LAYERS), draw)


def runs_of(folder, layer, draw=DRAW):
    return draw.units_of(opened(folder)[1].sets("mlp")[layer][0], layer)


def test_any_row_is_as_probable_and_units_are_drawn_anew_in_every_layer(llama):
    times = np.zeros(100)
    for seed in range(1000):
        drawn = indices(runs(100, wanted=20, run=10, purpose=f"any {seed}"))
        assert len(drawn) == len(set(drawn)) == 20
        times[drawn] += 1
    assert abs(times - 200).max() < 5 * np.sqrt(200)
    assert runs_of(llama, 0) != runs_of(llama, 1) != runs_of(llama, 1, Sample(4))
    assert DRAW.coordinates_of(512) == Sample(3).coordinates_of(512) != Sample(4).coordinates_of(512)


def test_the_branch_of_a_sample_is_the_product_of_what_was_drawn(llama):
    rows = indices(DRAW.coordinates_of(WIDTH))
    tensors = {name: tensor.numpy() for name, tensor in load_file(llama / WEIGHTS).items()}
    signature = seen(llama, recipe=PAPER)
    for layer in range(LAYERS):
        units = indices(runs_of(llama, layer))
        up, down = (tensors[f"model.layers.{layer}.mlp.{role}_proj.weight"] for role in ("up", "down"))
        product = down[np.ix_(rows, units)] @ up[np.ix_(units, rows)]
        residual = product - np.trace(product) / len(rows) * np.eye(len(rows))
        np.testing.assert_allclose(signature.sketch[layer], residual, atol=1e-4)
        np.testing.assert_allclose(signature.corner[layer], product, atol=1e-4)
        assert signature.trace[layer] == pytest.approx(np.trace(product), rel=1e-4)
    assert signature.sampled == SampleSize(64, HIDDEN, 32, WIDTH)


def test_a_gain_that_the_norm_and_the_matrices_share_changes_nothing(llama):
    def swap(tensors):
        for layer in range(LAYERS):
            tensors[f"model.layers.{layer}.post_attention_layernorm.weight"] *= 4
            for role in ("gate", "up"):
                tensors[f"model.layers.{layer}.mlp.{role}_proj.weight"] /= 4

    before, swapped = seen(llama), seen(spoil(llama, swap))
    np.testing.assert_allclose(swapped.sketch, before.sketch, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(swapped.units[0].inner, before.units[0].inner)


def test_a_child_is_as_similar_in_a_sample_as_it_is_as_a_whole(llama, tmp_path):
    child = fine_tuned(llama, tmp_path / "child", noise=0.5)
    whole = [extract_paths(*opened(folder), EXACT, ["mlp"])["mlp"] for folder in (llama, child)]
    score = compare_paths(*whole).score
    for seed in range(10):
        drawn = compare_paths(*(seen(folder, draw=Sample(seed)) for folder in (llama, child)))
        assert 0 < drawn.standard_error < 0.1
        assert abs(drawn.score - score) < 4 * drawn.standard_error


def test_a_layer_is_compared_with_that_of_its_number_alone(llama, tmp_path):
    def exchange(tensors):
        for role in ("gate", "up", "down"):
            first, last = (f"model.layers.{layer}.mlp.{role}_proj.weight" for layer in (0, 2))
            tensors[first], tensors[last] = tensors[last], tensors[first]

    other = spoil(fine_tuned(llama, tmp_path / "other", noise=0), exchange)
    comparison = compare_paths(seen(llama), seen(other))
    assert comparison.pairs[1].tolist() == [0, 1, 2]
    assert comparison.by_layer[1] == pytest.approx(1)
    assert abs(comparison.by_layer[[0, 2]]).max() < 0.3


def test_all_units_on_all_coordinates_are_the_branch_and_show_what_was_reordered(llama, tmp_path):
    assert len(indices(ALL.coordinates_of(WIDTH))) == WIDTH
    some, whole = seen(llama, draw=ALL), extract_paths(*opened(llama), EXACT, ["mlp"])["mlp"]
    for part in ("sketch", "corner", "trace", "norm"):
        np.testing.assert_allclose(getattr(some, part), getattr(whole, part), rtol=1e-4, atol=1e-5)
    for one, other in zip(some.units, whole.units, strict=True):
        np.testing.assert_allclose(one.weight, other.weight, rtol=1e-4)
    assert some.sampled == SampleSize(HIDDEN, HIDDEN, WIDTH, WIDTH)
    other = spoil(fine_tuned(llama, tmp_path / "shuffled", noise=0), lambda own: own.update(shuffled(own)))
    assert compare_paths(seen(llama, draw=ALL), seen(other, draw=ALL)).score == pytest.approx(1, abs=1e-4)
    assert abs(compare_paths(seen(llama), seen(other)).score) < 0.2


def test_of_all_units_no_more_than_a_piece_of_a_matrix_is_in_memory(llama, monkeypatch):
    sizes, read = [], StoredTensor.read
    monkeypatch.setattr(StoredTensor, "read", lambda self, memory: sizes.append(self.size) or read(self, memory))
    seen(llama, draw=ALL)
    assert max(sizes) == 4 * sampling.UNITS * WIDTH


def test_large_matrices_that_are_stored_by_themselves_can_be_sampled(llama, tmp_path, monkeypatch):
    def fit(folder, path="mlp"):
        checkpoint, layout = opened(folder)
        return fits(layout, checkpoint, path)

    assert [fit(llama, path) for path in ("mlp", "mlp_gate", "value_output", "query_key")] == [True, True, True, False]
    assert not fit(tiny_gpt2(tmp_path / "gpt2", width=WIDTH))  # stored as (in, out)
    for part, more in (("UNITS", 129), ("COORDINATES", 33)):
        with monkeypatch.context() as patch:
            patch.setattr(sampling, part, more)
            assert not fit(llama)
