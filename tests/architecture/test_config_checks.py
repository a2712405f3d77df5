"""The configurations of diffusers and timm say which class the registry lists for them."""

import math

import pytest

from hf_lineage.architecture.config_checks import (
    Within,
    as_listed,
    settings_notes,
)
from hf_lineage.architecture.registry import lookup
from hf_lineage.errors import NothingToCompare
from tests.modeltypes import TABLE, table

CONFIG = {"architectures": ["GraniteForCausalLM"], "model_type": "granite"}


def said(**changes):
    config = {key: value for key, value in (CONFIG | changes).items() if value is not None}
    return settings_notes(config, *lookup(config))


def test_the_table_of_types_is_what_transformers_says():
    assert TABLE.read_text(encoding="utf-8") == table()


def test_honest_settings_have_nothing_to_say():
    assert said(residual_multiplier=0.22, embedding_multiplier=12, rms_norm_eps=1e-5, clip_qkv=None) == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("residual_multiplier", 0),
        ("residual_multiplier", -0.0),
        ("residual_multiplier", 1e-9),
        ("residual_multiplier", math.nan),
        ("residual_multiplier", math.inf),
        ("residual_multiplier", 10**400),
        ("residual_multiplier", [1.0, 0.0]),
        ("residual_multiplier", 1001),
        ("embedding_multiplier", 1e7),
        ("rms_norm_eps", 1e9),
        ("rms_norm_eps", math.nan),
        ("rms_norm_eps", -1.0),
    ],
)
def test_a_setting_that_takes_the_layers_out_is_refused_wherever_it_stands(key, value):
    for changes in ({key: value}, {"text_config": {key: value}}, {"parts": [{"deep": {key: value}}]}):
        with pytest.raises(NothingToCompare, match=f"config.json says `{key}: "):
            said(**changes)


def test_a_small_step_below_the_least_is_refused_and_the_least_is_not():
    assert said(residual_multiplier=0.001) == said(residual_multiplier=-0.001) == ()
    with pytest.raises(NothingToCompare):
        said(residual_multiplier=0.00099)


@pytest.mark.parametrize(
    ("architecture", "key", "value"),
    [
        ("FalconH1ForCausalLM", "mlp_multipliers", [1.0, 0.0]),
        ("MixtralForCausalLM", "rms_norm_eps", 0.2),
        ("DeepseekV3ForCausalLM", "routed_scaling_factor", 0.4),
        ("DeepseekV3ForCausalLM", "routed_scaling_factor", 1e4),
        ("Gemma3nForCausalLM", "activation_sparsity_pattern", [0.95, 1.0]),
    ],
)
def test_a_key_counts_in_the_classes_that_read_it(architecture, key, value):
    config = {"architectures": [architecture], key: value}
    with pytest.raises(NothingToCompare, match=f"config.json says `{key}: "):
        settings_notes(config, *lookup(config))
    other = {"architectures": ["GPT2LMHeadModel"], key: value}
    assert settings_notes(other, *lookup(other)) == ()


def test_values_of_published_models_are_none_to_refuse():
    for architecture, said in {
        "DeepseekV2ForCausalLM": {"routed_scaling_factor": 16.0},
        "FalconH1ForCausalLM": {"ssm_in_multiplier": 1.25, "ssm_multipliers": [0.35, 0.25, 0.17, 0.5, 0.35]},
        "Gemma3nForCausalLM": {"activation_sparsity_pattern": [0.95] * 10 + [0.0] * 20},
        "MiniMaxForCausalLM": {"mlp_alpha_factor": 3.5565588200778455, "full_attn_beta_factor": 1.0},
        "MiMoV2FlashForCausalLM": {"attention_value_scale": 0.707},
    }.items():
        config = {"architectures": [architecture], **said}
        assert settings_notes(config, *lookup(config)) == ()


def test_weights_named_for_a_part_of_the_model_are_refused():
    with pytest.raises(NothingToCompare, match=r"names the weights b\.safetensors only for a part of the model"):
        said(text_config={"transformers_weights": "b.safetensors"})


@pytest.mark.parametrize("kind", ["gpt2", "no such type", 3, ["granite"], ""])
def test_a_type_of_other_classes_is_refused(kind):
    with pytest.raises(
        NothingToCompare, match=r"config\.json names the class GraniteForCausalLM, which is of model_type "
    ):
        said(model_type=kind)


UNET = {"_class_name": "UNet2DConditionModel", "_diffusers_version": "0.30.0"}

VIT = {"architecture": "vit_base_patch16_224", "num_classes": 1000}


def test_a_class_of_diffusers_is_listed_with_the_name_of_its_library():
    assert as_listed(UNET) == UNET | {"architectures": ["diffusers.UNet2DConditionModel"]}
    assert lookup(as_listed(UNET))[1].name == "diffusers_unet"


@pytest.mark.parametrize("name", ["vit_base_patch16_224", "vit_base_patch16_224.augreg_in21k_ft_in1k"])
def test_an_architecture_of_timm_stands_for_a_class_and_its_settings(name):
    config = as_listed({"architecture": name})
    assert config == {"architecture": name, "architectures": ["timm.VisionTransformer"], "num_heads": 12, "depth": 12}
    assert lookup(config)[1].name == "timm_vit"


def test_the_arguments_of_a_model_outrank_its_architecture():
    arguments = {"depth": 6, "num_heads": 3, "img_size": 384, "architectures": ["LlamaForCausalLM"]}
    config = as_listed(VIT | {"model_args": arguments})
    assert (config["depth"], config["num_heads"], config["architectures"]) == (6, 3, ["timm.VisionTransformer"])


@pytest.mark.parametrize("own", [{"architectures": ["LlamaForCausalLM"]}, {"model_type": "theirs"}])
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


def test_what_stands_under_the_prefix_is_the_model_and_all_else_is_not():
    stored = {"llm.model.norm.weight": 1, "llm.h.0.up.weight": 2, "vpm.h.0.up.weight": 3, "llmx.h.0.up.weight": 4}
    assert Within(("llm.",)).tensors(stored) == {"model.norm.weight": 1, "h.0.up.weight": 2}


def test_the_place_is_told_and_two_places_are_refused():
    within = Within(("llm.", "model.llm."))
    assert within.place(["llm.norm.weight", "vpm.norm.weight"]) == "llm."
    for stored in (["llm.norm.weight", "model.llm.norm.weight"], ["norm.weight"]):
        with pytest.raises(NothingToCompare):
            within.place(stored)


def test_names_in_layers_are_those_of_the_class_and_others_stay():
    within = Within(("m.",), layers="m.h.{layer}", renamed={"ln1": "input", "mlp.w": "mlp.up"})
    stored = dict.fromkeys(
        ["m.h.0.ln1.weight", "m.h.11.mlp.w", "m.h.0.ln10.weight", "m.ln1.weight", "m.h.x.ln1.weight"]
    )
    renamed = ["h.0.input.weight", "h.11.mlp.up", "h.0.ln10.weight", "ln1.weight", "h.x.ln1.weight"]
    assert list(within.tensors(stored)) == renamed


def test_its_settings_are_its_own_and_how_it_is_stored_is_said_for_all():
    whole = {"text_config": {"hidden_size": 8}, "hidden_size": 4, "quantization_config": {"bits": 4}}
    assert Within(("",), "text_config").config(whole) == {"hidden_size": 8, "quantization_config": {"bits": 4}}
    assert Within().config(whole) == whole
    assert Within(("",), "audio_config").config(whole | {"audio_config": 7}) == {"quantization_config": {"bits": 4}}
