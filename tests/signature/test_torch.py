"""The code for GPUs, run by torch on the CPU, gives the signature that NumPy gives, up to rounding in float32.

What needs a GPU is not run here: pinning memory, copying from it while something else is computed, and the arithmetic
of a GPU. That memory is pinned, and what becomes of it, is seen with a stand-in.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hf_lineage.evidence.comparison import compare_paths
from hf_lineage.hub.repo import resolve
from hf_lineage.signature import devices
from hf_lineage.signature.arrays import on_device
from hf_lineage.signature.devices import alone
from hf_lineage.signature.extract import Extraction, extract_paths
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.source.headers import headers
from tests.conformance.models import tiny_model
from tests.models import spoil, tiny_gpt2, tiny_llama
from tests.terms import random

RECIPE = {f"{name}, {kind}": replace(RECIPES[name], probes=probes)
          for name in ("robust", "paper") for kind, probes in (("sketch", 8), ("exact", None))}  # fmt: skip


def opened(folder):
    found = headers(resolve(str(folder)))
    return found.checkpoint, found.layout


def saved(folder, name):
    """Save a model of transformers with weights in float16."""
    model = tiny_model(name, {})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    model.half().save_pretrained(folder)
    return folder


MODELS = {
    "gated": tiny_llama,
    "LayerNorm, stored as (in, out)": tiny_gpt2,
    "mixture of experts": "MixtralForCausalLM",
    "packed experts with biases": "GptOssForCausalLM",
    "latent attention": "DeepseekV3ForCausalLM",
    "gains on both sides": "Gemma2ForCausalLM",
}


@pytest.fixture(scope="module", params=MODELS.values(), ids=MODELS)
def model(request, tmp_path_factory):
    folder, make = tmp_path_factory.mktemp("model") / "model", request.param
    return opened(saved(folder, make) if isinstance(make, str) else make(folder))


@pytest.fixture
def by_torch(monkeypatch):
    """Layers are computed by torch, on the CPU."""
    monkeypatch.setattr(devices, "place", lambda layers, memory: ["cpu:0"] * len(layers))


def alike(found, expected):
    """Assert that numbers are the same up to rounding, measured by the largest of them."""
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
    recipe = RECIPE["robust, exact"]
    extraction = Extraction(*model, recipe, ("mlp",), devices.budgets())
    whole = extraction.signatures()["mlp"]
    some = extraction.signatures(slice(3, 9))["mlp"]
    alike(some.sketch, whole.sketch[:, :, 3:9])
    alike(some.corner, whole.corner)


def test_weights_that_are_no_numbers_are_marked_by_torch_as_by_numpy(tmp_path, by_torch):
    def poison(tensors):
        tensors["model.layers.1.mlp.up_proj.weight"][3] = float("nan")

    found = extract_paths(*opened(spoil(tiny_llama(tmp_path), poison)), RECIPES["robust"], ("mlp", "value_output"))
    assert found["mlp"].usable.tolist() == [True, False]
    assert found["value_output"].usable.all()


def test_what_a_device_holds_stays_when_the_memory_is_used_for_the_next_layer(tmp_path):
    extraction = Extraction(*opened(tiny_llama(tmp_path)), RECIPES["robust"], ("mlp",), devices.budgets())
    layers = extraction._loaded(iter(range(2)), ["cpu:0", "cpu:0"], alone)
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
