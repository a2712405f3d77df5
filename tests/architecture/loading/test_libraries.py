"""The configurations of diffusers and timm say which class the registry lists for them."""

import pytest

from hf_lineage.architecture.loading.libraries import as_listed, of_diffusers, timm_architectures
from hf_lineage.architecture.registry.lookups import lookup
from hf_lineage.errors import NothingToCompare

UNET = {"_class_name": "UNet2DConditionModel", "_diffusers_version": "0.30.0"}
VIT = {"architecture": "vit_base_patch16_224", "num_classes": 1000}


def test_a_class_of_diffusers_is_listed_with_the_name_of_its_library():
    assert as_listed(UNET) == UNET | {"architectures": ["diffusers.UNet2DConditionModel"]}
    assert lookup(as_listed(UNET))[1].name == "diffusers_unet"


@pytest.mark.parametrize("name", ["vit_base_patch16_224", "vit_base_patch16_224.augreg_in21k_ft_in1k"])
def test_an_architecture_of_timm_stands_for_a_class_and_its_settings(name):
    config = as_listed({"architecture": name})
    assert config == {
        "architecture": name,
        "architectures": ["timm.VisionTransformer"],
        "num_heads": 12,
        "depth": 12,
    }
    assert lookup(config)[1].name == "timm_vit"


def test_the_arguments_of_a_model_outrank_its_architecture():
    arguments = {"depth": 6, "num_heads": 3, "img_size": 384, "architectures": ["LlamaForCausalLM"]}
    config = as_listed(VIT | {"model_args": arguments})
    assert (config["depth"], config["num_heads"], config["architectures"]) == (6, 3, ["timm.VisionTransformer"])


@pytest.mark.parametrize("own", [{"architectures": ["LlamaForCausalLM"]}, {"model_type": "llama"}])
@pytest.mark.parametrize("other", [UNET, VIT])
def test_what_transformers_loads_is_left_as_it_is(own, other):
    assert as_listed(own | other) == own | other


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"_class_name": ["UNet2DConditionModel"]},
        {"architecture": {"vit_base_patch16_224": 1}},
        {"architecture": None},
    ],
)
def test_what_no_library_writes_stays_without_a_class(config):
    assert "architectures" not in as_listed(config)


@pytest.mark.parametrize("arguments", [None, [], "depth", {"depth": {"a": 1}}])
def test_arguments_of_any_kind_are_no_crash(arguments):
    assert as_listed(VIT | {"model_args": arguments})["architectures"] == ["timm.VisionTransformer"]


@pytest.mark.parametrize(
    "config",
    [
        {"architecture": "resnet50.a1_in1k"},
        {"architecture": "VisionTransformer"},
        {"_class_name": "LlamaForCausalLM", "_diffusers_version": "0.30"},
        {"_class_name": "AutoencoderKL", "_diffusers_version": "0.30"},
    ],
)
def test_what_was_not_proved_is_nothing_to_compare(config):
    with pytest.raises(NothingToCompare, match=r"of timm is not in the registry|diffusers\."):
        lookup(as_listed(config))


def test_what_computes_something_else_under_the_same_names_is_not_in_the_table():
    """Norms behind the branches, norms inside them, other norms."""
    others = {
        "vit_base_patch16_rpn_224",
        "beit3_base_patch16_224",
        "convnext_atto_rms",
        "eva02_enormous_patch14_clip_224",
    }
    assert others & timm_architectures().keys() == set()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"_class_name": "UNet2DConditionModel"}, True),
        ({"_class_name": "UNet2DConditionModel", "model_type": "llama"}, False),
        ({"_class_name": "UNet2DConditionModel", "architectures": []}, False),
        ({"model_type": "llama"}, False),
        ({}, False),
    ],
)
def test_what_transformers_is_asked_to_load_is_none_of_diffusers(config, expected):
    assert of_diffusers(config) is expected
