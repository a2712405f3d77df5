"""Models of several stacks: encoder beside decoder, stages of a convolutional network, streams of unlike widths."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

from hf_lineage import Options, compare, extract
from hf_lineage.architecture.layout import bind
from hf_lineage.architecture.registry import factorizations
from hf_lineage.errors import CheckpointError
from hf_lineage.evidence.comparison import compare_paths
from hf_lineage.hub.repo import resolve
from hf_lineage.signature.devices import budgets
from hf_lineage.signature.extract import Extraction, Residuals
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.source.headers import headers
from tests.conformance.models import tiny_model
from tests.models import fine_tuned, spoil

EXACT = replace(RECIPES["robust"], probes=None)
RESNET: dict[str, Any] = {"embedding_size": 16, "hidden_sizes": [16, 24], "depths": [3, 4], "layer_type": "basic"}
T5: dict[str, Any] = {"d_model": 32, "d_kv": 8, "d_ff": 40, "num_heads": 4, "vocab_size": 64}
T5 |= {"tie_word_embeddings": True, "num_layers": 2, "num_decoder_layers": 3}


def saved(name, folder, seed=0, **said):
    torch.manual_seed(seed)
    config = getattr(transformers, name).config_class(**said, architectures=[name])
    model = getattr(transformers, name)(config)
    for parameter in model.parameters():
        parameter.data.normal_(std=0.3)
    for key, buffer in model.named_buffers():
        if key.endswith("running_var"):
            buffer.uniform_(0.5, 2.0)
    model.save_pretrained(folder)
    return str(folder)


def noised(folder, to):
    return str(fine_tuned(Path(folder), to))


def verdict(base, candidate, **options):
    (row,) = compare(base, candidate, Options(**options)).rows
    return row.verdict


def resnet(folder, **said):
    return saved("ResNetModel", folder, **RESNET | said)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return [resnet(tmp_path_factory.mktemp("resnet"), seed=seed) for seed in (0, 1)]


def test_an_encoder_alone_is_what_it_is_beside_a_decoder_which_is_named_if_lost(tmp_path):
    whole = extract(saved("T5ForConditionalGeneration", tmp_path / "whole", **T5))
    transformers.T5EncoderModel.from_pretrained(tmp_path / "whole").save_pretrained(tmp_path / "encoder")
    alone = extract(str(tmp_path / "encoder"))
    np.testing.assert_array_equal(whole.paths["mlp"].sketch[:2], alone.paths["mlp"].sketch)
    spoil(tmp_path / "whole", lambda tensors: [tensors.pop(one) for one in list(tensors) if one.startswith("decoder.")])
    with pytest.raises(CheckpointError, match=r"no tensor is named like decoder\.block\.\{layer\}"):
        headers(resolve(str(tmp_path / "whole")))


def test_a_stage_has_its_own_width_and_no_branch_where_the_shortcut_has_weights(models, tmp_path):
    found = extract(models[0])
    assert (found.layers, found.width, found.without) == (7, 24, {"mlp": (3,)})
    (path,) = found.paths.values()
    assert path.widths == (16, 16, 16, 24, 24, 24)
    assert (path.sketch.shape, path.corner.shape) == ((6, 24, 24), (6, 16, 16))
    assert (path.sketch[:3, 16:].any(), path.usable.all()) == (False, True)
    other = verdict(models[0], resnet(tmp_path, depths=[4, 3]))
    assert other.code == "incompatible"
    assert "has mlp in 6 layers of widths 16, 16, 16, 24, 24, 24" in other.reason


@pytest.mark.parametrize("recipe", [RECIPES["robust"], EXACT, replace(EXACT, probes=8)], ids=str)
def test_models_of_unlike_widths_are_told_apart(models, recipe, tmp_path):
    base, other = models
    related, unrelated = (verdict(base, model, recipe=recipe) for model in (noised(base, tmp_path / "child"), other))
    assert (related.code, unrelated.code) == ("inherited", "unrelated")
    comparison = related.evidence["mlp"].comparison
    assert (comparison.similarity[:3, 3:].any(), comparison.similarity[3:, :3].any()) == (False, False)
    assert comparison.pairs[1].tolist() == list(range(6))


def test_layers_of_unlike_widths_are_never_compared_in_the_null_either(models):
    one, two = (extract(model).paths["mlp"] for model in models)
    swapped = two.select([3, 4, 5, 0, 1, 2])
    assert swapped.widths == (24, 24, 24, 16, 16, 16)
    assert one.alike(swapped).tolist() == [[False] * 3 + [True] * 3] * 3 + [[True] * 3 + [False] * 3] * 3
    assert compare_paths(one, swapped).score == pytest.approx(compare_paths(one, two).score)


def test_layers_of_unlike_widths_are_all_read_however_quick_it_is_to_be(tmp_path):
    said = {"hidden_sizes": [16, 24], "depths": [1, 11], "num_stages": 2}
    base, other = (saved("ConvNextModel", tmp_path / str(seed), seed, **said) for seed in (0, 1))
    for model, code in ((noised(base, tmp_path / "child"), "inherited"), (other, "unrelated")):
        found = verdict(base, model, budget="quick")
        assert (found.code, found.evidence["mlp"].analyses) == (code, 1)
        assert len(found.evidence["mlp"].layers[1]) == 12


def test_a_bottleneck_is_the_product_of_three_convolutions(tmp_path):
    folder = resnet(tmp_path, layer_type="bottleneck", hidden_sizes=[32, 48])
    recipe = replace(RECIPES["paper"], probes=None)
    found = extract(folder, Options(recipe=recipe)).paths["mlp"]
    weights = load_file(tmp_path / "model.safetensors")
    first, second, third = (
        weights[f"encoder.stages.1.layers.2.layer.{n}.convolution.weight"].sum(dim=(2, 3)).double() for n in range(3)
    )
    product = third @ second @ first
    residual = product - product.trace() / 48 * torch.eye(48)
    np.testing.assert_allclose(found.sketch[found.widths.index(48) + 1], residual, atol=1e-4)
    assert found.trace[found.widths.index(48) + 1] == pytest.approx(float(product.trace()), rel=1e-5)


def test_each_stack_has_its_own_number_of_heads():
    found = next(found for found in factorizations() if found.name == "t5")
    found = msgspec.structs.replace(found, heads={"encoder": "num_heads", "decoder": "more.1"})
    shapes = {}
    for stack, mlp in (("encoder", 1), ("decoder", 2)):
        names = [*(f"0.SelfAttention.{role}" for role in "qkvo"), *(f"{mlp}.DenseReluDense.w{role}" for role in "io")]
        shapes |= {f"{stack}.block.0.layer.{name}.weight": (24, 24) for name in names}
        shapes |= {f"{stack}.block.0.layer.{n}.layer_norm.weight": (24,) for n in (0, mlp)}
    layout = bind(found, shapes, {"num_heads": 4, "more": [9, 6]})
    assert [each.heads["query"].count for (each,) in layout.sets("value_output")] == [4, 6]
    assert layout.heads == 6


OPTIONS = Options(paths=("mlp", "value_output", "query_key"), permutations=299)


def hybrid(folder, kinds=("full_attention", "conv", "full_attention", "conv", "conv")):
    settings = {"layer_types": list(kinds), "num_hidden_layers": len(kinds)}
    tiny_model("Lfm2ForCausalLM", settings).save_pretrained(folder)
    return str(folder)


def test_a_path_has_a_row_for_every_layer_that_has_it_in_pieces_too(tmp_path):
    found = extract(hybrid(tmp_path), OPTIONS)
    rows = {path: found.paths[path].sketch.shape[0] for path in OPTIONS.paths}
    assert rows == {"mlp": 5, "value_output": 2, "query_key": 2}
    assert found.without == {"value_output": (1, 3, 4), "query_key": (1, 3, 4)}
    assert all(parts.usable.all() for parts in found.paths.values())
    opened = headers(resolve(str(tmp_path)))
    extraction = Extraction(opened.checkpoint, opened.layout, OPTIONS.recipe, ("query_key",), budgets(None))
    residuals = Residuals(extraction, 8)
    assert residuals.shape == (2, 32, 32)
    whole = extraction.signatures()["query_key"].sketch
    assert np.allclose(residuals.columns(slice(8, 16)), whole[:, :, 8:16], atol=1e-5)


def test_models_with_unlike_numbers_of_layers_are_compared_along_every_path(tmp_path):
    few, many = hybrid(tmp_path / "few"), hybrid(tmp_path / "many", ["full_attention"] * 4 + ["conv"])
    evidence = verdict(few, many, paths=("mlp", "value_output")).evidence
    shapes = {path: found.comparison.similarity.shape for path, found in evidence.items()}
    assert shapes == {"mlp": (5, 5), "value_output": (2, 4)}
