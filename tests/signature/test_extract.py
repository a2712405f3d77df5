"""Extraction reads layer by layer within its memory budget; torch on the CPU gives what NumPy gives."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hf_lineage.errors import NothingToCompare, OptionError
from hf_lineage.evidence.comparison import compare_paths
from hf_lineage.hub.repo import resolve
from hf_lineage.signature import devices
from hf_lineage.signature.devices import alone
from hf_lineage.signature.extract import Extraction, Residuals, extract_paths
from hf_lineage.signature.matrix_product import on_device
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.source.headers import headers
from tests.conformance.models import tiny_model
from tests.models import spoil, tiny_gpt2, tiny_llama
from tests.terms import random

HUB = Path(__file__).parents[2] / "examples/hub"
ROBUST = RECIPES["robust"]
EXACT = replace(ROBUST, probes=None)


def opened(folder):
    found = headers(resolve(str(folder)))
    return found.checkpoint, found.layout


@pytest.fixture(scope="module")
def llama():
    return opened(HUB / "acme/llama-base")


def megabytes(model, recipe, columns):
    """What the largest layer takes when it is seen through so many columns, and those of all layers with it."""
    extraction = Extraction(*model, recipe, ("mlp",), devices.budgets())
    residuals = 2**27 + 2 * 4 * model[1].layers * model[1].width * columns if recipe is EXACT else 0
    return (max(extraction.working_set(layer, columns) for layer in range(model[1].layers)) + residuals) / 1e6


def test_every_path_is_extracted_in_one_go_as_one_by_one_and_none_that_is_not_there(llama):
    together = extract_paths(*llama, ROBUST, llama[1].paths)
    assert list(together) == ["mlp", "mlp_gate", "value_output", "query_key"]
    for path, found in together.items():
        alone = extract_paths(*llama, ROBUST, (path,))[path]
        np.testing.assert_array_equal(found.sketch, alone.sketch)
        assert found.usable.all()
    with pytest.raises(NothingToCompare, match="gpt2 has no path mlp_gate; it has mlp, value_output, query_key"):
        extract_paths(*opened(HUB / "acme/gpt2-base"), ROBUST, ("mlp_gate",))


def test_the_memory_budget_has_to_hold_one_layer_and_no_more(llama):
    need = megabytes(llama, ROBUST, 64)
    assert extract_paths(*llama, ROBUST, max_memory=f"{need + 0.01:.2f}MB")
    with pytest.raises(OptionError, match="one layer needs"):
        extract_paths(*llama, ROBUST, max_memory=f"{need - 0.01:.2f}MB")
    with pytest.raises(OptionError, match=r"exact mode needs \d+ MiB here; raise HF_LINEAGE_MAX_MEMORY or use probes"):
        extract_paths(*llama, EXACT, max_memory=f"{megabytes(llama, EXACT, 60):.2f}MB")


def test_exact_residuals_beyond_the_budget_are_made_some_columns_at_a_time(llama):
    models, budget = (llama, opened(HUB / "heron/llama-pruned-50")), f"{megabytes(llama, EXACT, 70):.2f}MB"
    whole, parted = (
        [extract_paths(*model, EXACT, max_memory=memory)["mlp"] for model in models] for memory in (None, budget)
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


RECIPE = {f"{name}, {kind}": replace(RECIPES[name], probes=probes)
          for name in ("robust", "paper") for kind, probes in (("sketch", 8), ("exact", None))}  # fmt: skip


MODELS = {
    "gated": tiny_llama,
    "LayerNorm, stored as (in, out)": tiny_gpt2,
    "mixture of experts": "MixtralForCausalLM",
    "packed experts with biases": "GptOssForCausalLM",
    "latent attention": "DeepseekV3ForCausalLM",
    "gains on both sides": "Gemma2ForCausalLM",
}


@pytest.fixture(scope="module", params=MODELS.values(), ids=[*MODELS])
def model(request, tmp_path_factory):
    """A tiny checkpoint, or a model of transformers with weights in float16."""
    folder, make = tmp_path_factory.mktemp("model") / "model", request.param
    if not isinstance(make, str):
        return opened(make(folder))
    built = tiny_model(make, {})
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    built.half().save_pretrained(folder)
    return opened(folder)


@pytest.fixture
def by_torch(monkeypatch):
    """Layers are computed by torch, on the CPU."""
    monkeypatch.setattr(devices, "place", lambda layers, memory: ["cpu:0"] * len(layers))


def alike(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max(), strict=True)


@pytest.mark.few(8)
@pytest.mark.parametrize("recipe", RECIPE.values(), ids=RECIPE)
def test_every_path_has_the_signature_that_numpy_gives(model, recipe, request):
    by_numpy = extract_paths(*model, recipe, model[1].paths)
    request.getfixturevalue("by_torch")
    by_torch = extract_paths(*model, recipe, model[1].paths)
    assert list(by_torch) == list(by_numpy) == list(model[1].paths)
    for path, expected in by_numpy.items():
        found = by_torch[path]
        for part in ("sketch", "corner", "trace", "norm"):
            alike(getattr(found, part), getattr(expected, part))
        assert found.usable.all()
        assert len(found.units) == len(expected.units)
        for codes, other in zip(found.units, expected.units, strict=True):
            alike(codes.weight, other.weight)
            for side in ("inner", "outer"):
                bits = np.unpackbits(getattr(codes, side) ^ getattr(other, side))
                assert not bits.size or bits.mean() < 1e-3  # a sum that rounds to the other side of zero
        assert compare_paths(found, expected).score == pytest.approx(1, abs=1e-4)


def test_exact_residuals_are_made_some_columns_at_a_time_too(model, by_torch):
    recipe = EXACT
    extraction = Extraction(*model, recipe, ("mlp",), devices.budgets())
    whole = extraction.signatures()["mlp"]
    some = extraction.signatures(slice(3, 9))["mlp"]
    alike(some.sketch, whole.sketch[:, :, 3:9])
    alike(some.corner, whole.corner)


def test_weights_that_are_no_numbers_are_marked_by_torch_as_by_numpy(tmp_path, by_torch):
    def poison(tensors):
        tensors["model.layers.1.mlp.up_proj.weight"][3] = float("nan")

    found = extract_paths(*opened(spoil(tiny_llama(tmp_path), poison)), ROBUST, ("mlp", "value_output"))
    assert found["mlp"].usable.tolist() == [True, False]
    assert found["value_output"].usable.all()


def test_what_a_device_holds_stays_when_the_memory_is_used_for_the_next_layer(tmp_path):
    extraction = Extraction(*opened(tiny_llama(tmp_path)), ROBUST, ("mlp",), devices.budgets())
    layers = extraction._load_layers(iter(range(2)), ["cpu:0", "cpu:0"], alone)
    (term,) = next(layers)[1]["mlp"]
    expected = term.writer.clone(), term.reader.clone()
    next(layers)
    assert torch.equal(term.writer, expected[0])
    assert torch.equal(term.reader, expected[1])


@pytest.mark.parametrize("array", [random(4, 3), random(4, 3).T, random(5).astype(np.float16)])
def test_for_a_gpu_numbers_are_pinned_and_copied_without_waiting(monkeypatch, array):
    """A stand-in takes the place of pinning and copying, for which torch asks the driver."""
    asked = []

    def pin_memory(tensor):
        asked.append("pinned")
        return tensor.clone()

    def to(tensor, *arguments, **named):
        asked.append((*map(str, arguments), named))
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    monkeypatch.setattr(torch.Tensor, "to", to)
    tensor = on_device(array, "cuda:1")
    assert asked == ["pinned", ("cuda:1", {"non_blocking": True})]
    np.testing.assert_array_equal(tensor.numpy(), array)
