"""Transforms that run with the model: applied by compressed-tensors itself, turned back by us."""

import shutil

import numpy as np
import pytest
import torch
from compressed_tensors.transform import TransformArgs, TransformConfig, TransformScheme, apply_transform_config
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from hf_lineage.checkpoint.formats.transforms import hadamard
from tests.models import WEIGHTS, edit_json
from tests.quantizing import BASE, INDEPENDENT, opened, refused, verdict

DOWN, OUTPUT = "model.layers.0.mlp.down_proj.weight", "model.layers.0.self_attn.o_proj.weight"


def scheme(size=None, randomize=False, location="input", targets=("re:.*down_proj$",), kind="hadamard"):
    """R4 of SpinQuant: what a matrix reads is turned while the model runs, and its weights the other way."""
    places = [
        TransformArgs(targets=list(targets), location=location),
        TransformArgs(targets=list(targets), location=f"weight_{location}", inverse=True),
    ]
    return TransformScheme(type=kind, apply=places, randomize=randomize, head_dim=size)


def released(folder, source=BASE, **settings):
    """A model to which compressed-tensors has applied a transform, with the config.json that it writes."""
    config = TransformConfig(config_groups={"R4": scheme(**settings)})
    model = AutoModelForCausalLM.from_pretrained(source, dtype="float32")
    apply_transform_config(model, config)
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("README.md", WEIGHTS))
    tensors = {name: tensor for name, tensor in model.state_dict().items() if "R4" not in name}
    AutoModelForCausalLM.from_pretrained(source, dtype="float32").save_pretrained(folder, state_dict=tensors)
    stated = {"quant_method": "compressed-tensors", "transform_config": config.model_dump(mode="json")}
    edit_json(folder / "config.json", quantization_config=stated)
    return folder


def test_the_hadamard_matrix_is_that_of_sylvester():
    turned = hadamard(np.eye(8, dtype=np.float32))
    signs = [[(-1.0) ** (row & column).bit_count() for column in range(8)] for row in range(8)]
    np.testing.assert_allclose(turned, np.array(signs) / np.sqrt(8), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        (DOWN, {}),
        (DOWN, {"size": 64}),
        (OUTPUT, {"size": 32, "targets": ["re:.*o_proj$"]}),
        (OUTPUT, {"size": 8, "targets": ["model.layers.0.self_attn.o_proj"], "location": "output"}),
    ],
)
def test_a_matrix_is_what_the_model_computes_with(name, settings, tmp_path):
    folder = released(tmp_path / "model", **settings)
    plain, stored = (load_file(where / WEIGHTS)[name].float().numpy() for where in (BASE, folder))
    assert np.abs(stored - plain).max() > 0.1
    np.testing.assert_allclose(opened(folder).read(name), plain, atol=1e-5)


def test_a_release_is_related_and_an_independent_one_is_not(tmp_path):
    outcome = verdict(BASE, released(tmp_path / "child"))
    assert (outcome.words, outcome.evidence["mlp"].inherited.share) == ("RELATED", pytest.approx(1))
    assert verdict(BASE, released(tmp_path / "other", INDEPENDENT)).words == "UNRELATED"


@pytest.mark.long
def test_an_entry_that_transformers_ignores_does_not_hide_a_descendant(tmp_path):
    """The weights are those of the base; an engine that ran the transform would compute something else."""
    config = TransformConfig(config_groups={"R4": scheme()})
    stated = {"quant_method": "compressed-tensors", "transform_config": config.model_dump(mode="json")}
    shutil.copytree(BASE, tmp_path / "child", ignore=shutil.ignore_patterns("README.md"))
    edit_json(tmp_path / "child" / "config.json", quantization_config=stated)
    outcome = verdict(BASE, tmp_path / "child")
    assert outcome.words == "UNVERIFIABLE"
    assert "loaded without `transform_config`, which transformers ignores, it is RELATED" in outcome.reason


@pytest.mark.parametrize(
    "changes",
    [{"type": "random-hadamard"}, {"type": "random-matrix"}, {"randomize": True}, {"head_dim": 96}, {"head_dim": "x"}],
)
def test_what_is_not_known_is_unverifiable(changes, tmp_path):
    folder = released(tmp_path / "model")
    group = scheme().model_dump(mode="json") | changes
    stated = {"quant_method": "compressed-tensors", "transform_config": {"config_groups": {"R4": group}}}
    edit_json(folder / "config.json", quantization_config=stated)
    outcome = verdict(BASE, folder)
    assert outcome.name == "UNVERIFIABLE"
    assert "is stored for a transform that runs with the model and cannot be undone" in outcome.reason


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        (
            {"config_groups": {"v": {"type": "hadamard", "apply": [{"targets": ["Linear"], "location": "input"}]}}},
            "class",
        ),
        (
            {"config_groups": {"v": {"type": "hadamard", "apply": [{"targets": [], "location": "sideways"}]}}},
            "unknown transform",
        ),
        ({"config_groups": {"v": {"type": "hadamard", "apply": 3}}}, "unknown transform"),
        ({"config_groups": {"v": 3}}, "unknown transform"),
    ],
)
def test_what_cannot_be_followed_is_unverifiable(stated, reason, tmp_path):
    folder = released(tmp_path / "model")
    edit_json(
        folder / "config.json", quantization_config={"quant_method": "compressed-tensors", "transform_config": stated}
    )
    assert refused(folder).startswith("NothingToCompare")
    assert reason in refused(folder)


def test_weights_that_another_program_rotated_are_unverifiable(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(BASE, folder)
    edit_json(folder / "config.json", quantization_config={"quant_method": "gptq", "rotation": "hadamard"})
    assert "rotated before they were quantized (`rotation`)" in refused(folder)


def test_transforms_of_queries_and_keys_alike_change_nothing(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(BASE, folder)
    places = [{"targets": ["re:.*self_attn$"], "location": where} for where in ("q_attn", "k_cache")]
    groups = {"R3": {"type": "hadamard", "apply": places, "head_dim": 8}}
    stated = {"quant_method": "compressed-tensors", "transform_config": {"config_groups": groups}}
    edit_json(folder / "config.json", quantization_config=stated)
    assert torch.equal(
        torch.from_numpy(opened(folder).read(DOWN).astype(np.float32)), load_file(BASE / WEIGHTS)[DOWN].float()
    )
