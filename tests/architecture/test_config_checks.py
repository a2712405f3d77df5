"""Settings as they were tried by running, and the classes that the registry lists for diffusers and timm."""

import functools
import json
import math
from itertools import product
from typing import Any

import pytest

from hf_lineage.architecture import config_checks
from hf_lineage.architecture.config_checks import Fine, as_listed, kinds, parts, settings_reservations, usual_type
from hf_lineage.architecture.registry import factorizations, lookup
from hf_lineage.errors import NothingToCompare
from tests.conformance.effects import Tried
from tests.conformance.models import transformers
from tests.long import first_of
from tests.modeltypes import TABLE, by_default, types_by_class
from tests.modeltypes import table as types_table
from tests.settings import cases, digest, table, tried

CONFIG = {"architectures": ["GraniteForCausalLM"], "model_type": "granite"}


def notes(config):
    return config_checks.settings_notes(config, *lookup(config))


@pytest.mark.parametrize("step", first_of([25, 1]))
def test_the_table_of_types_is_what_transformers_says(step):
    """Of a few classes at most: to look at all of them imports the code of all."""
    said = json.loads(TABLE.read_text(encoding="utf-8"))
    for name, found in types_by_class(step).items():
        assert {kind for kind, entry in said.items() if name in entry["classes"]} == found
        assert all(said[kind] == {**by_default(kind), "classes": said[kind]["classes"]} for kind in found)
    assert step > 1 or TABLE.read_text(encoding="utf-8") == types_table()


OUT: dict[str, list[Any]] = {
    "residual_multiplier": [0, -0.0, 1e-9, 0.00099, math.nan, math.inf, 10**400, [1.0, 0.0], 1001],
    **{"embedding_multiplier": [1e7], "rms_norm_eps": [1e9, math.nan, -1.0]},
}


@pytest.mark.parametrize(
    ("architecture", "key", "value"),
    [
        *(("GraniteForCausalLM", key, value) for key, values in OUT.items() for value in values),
        ("FalconH1ForCausalLM", "mlp_multipliers", [1.0, 0.0]),
        ("MixtralForCausalLM", "rms_norm_eps", 0.2),
        *(("DeepseekV3ForCausalLM", "routed_scaling_factor", value) for value in (0.4, 1e4)),
        ("Gemma3nForCausalLM", "activation_sparsity_pattern", [0.95, 1.0]),
    ],
)
def test_a_setting_that_takes_layers_out_is_refused_in_classes_that_read_it(architecture, key, value):
    for settings in ({key: value}, {"text_config": {key: value}}, {"parts": [{"deep": {key: value}}]}):
        with pytest.raises(NothingToCompare, match=f"config.json says `{key}: "):
            notes({"architectures": [architecture]} | settings)
    assert "norm_eps" in key or notes({"architectures": ["GPT2LMHeadModel"], key: value}) == ()


@pytest.mark.parametrize(
    ("architecture", "settings"),
    [
        ("GraniteForCausalLM", {"residual_multiplier": 0.22, "embedding_multiplier": 12, "rms_norm_eps": 1e-5}),
        *(("GraniteForCausalLM", {"residual_multiplier": least}) for least in (0.001, -0.001)),
        ("DeepseekV2ForCausalLM", {"routed_scaling_factor": 16.0}),
        ("FalconH1ForCausalLM", {"ssm_in_multiplier": 1.25, "ssm_multipliers": [0.35, 0.25, 0.17, 0.5, 0.35]}),
        ("Gemma3nForCausalLM", {"activation_sparsity_pattern": [0.95] * 10 + [0.0] * 20}),
        ("MiniMaxForCausalLM", {"mlp_alpha_factor": 3.5565588200778455, "full_attn_beta_factor": 1.0}),
        ("MiMoV2FlashForCausalLM", {"attention_value_scale": 0.707}),
    ],
)
def test_values_of_published_models_and_the_least_are_none_to_refuse(architecture, settings):
    assert notes({"architectures": [architecture]} | settings) == ()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        *(
            ({"model_type": kind}, r"config\.json names the class GraniteForCausalLM, which is of model_type ")
            for kind in ("gpt2", "no such type", 3, ["granite"], "")
        ),
        ({"text_config": {"transformers_weights": "b.safetensors"}}, r"the weights b\.safetensors only for a part"),
    ],
)
def test_a_type_of_other_classes_and_weights_of_a_part_are_refused(changes, told):
    with pytest.raises(NothingToCompare, match=told):
        notes(CONFIG | changes)


UNET = {"_class_name": "UNet2DConditionModel", "_diffusers_version": "0.30.0"}


@pytest.mark.parametrize("name", ["vit_base_patch16_224", "vit_base_patch16_224.augreg_in21k_ft_in1k"])
def test_another_library_is_listed_by_its_name_and_an_architecture_with_its_settings(name):
    assert as_listed(UNET) == UNET | {"architectures": ["diffusers.UNet2DConditionModel"]}
    config = as_listed({"architecture": name})
    assert config == {"architecture": name, "architectures": ["timm.VisionTransformer"], "num_heads": 12, "depth": 12}
    assert [lookup(each)[1].name for each in (as_listed(UNET), config)] == ["diffusers_unet", "timm_vit"]
    arguments = {"depth": 6, "num_heads": 3, "img_size": 384, "architectures": ["LlamaForCausalLM"]}
    config = as_listed({"architecture": name, "model_args": arguments})
    assert (config["depth"], config["num_heads"], config["architectures"]) == (6, 3, ["timm.VisionTransformer"])
    for arguments in (None, [], "depth", {"depth": {"a": 1}}):
        assert as_listed({"architecture": name, "model_args": arguments})["architectures"] == ["timm.VisionTransformer"]


@pytest.mark.parametrize("own", [{"architectures": ["LlamaForCausalLM"]}, {"model_type": "theirs"}])
@pytest.mark.parametrize("other", [UNET, {"architecture": "vit_base_patch16_224", "num_classes": 1000}])
def test_what_transformers_loads_is_left_as_it_is(own, other):
    assert as_listed(own | other) == own | other


NAMELESS = {"_class_name": ["UNet2DConditionModel"]}, {"architecture": {"vit_base_patch16_224": 1}}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        *((config, "names no class") for config in ({}, *NAMELESS, {"architecture": None})),
        *(({"architecture": name}, "of timm is not in the reg") for name in ("resnet50.a1_in1k", "VisionTransformer")),
        *(({**UNET, "_class_name": name}, r"diffusers\.") for name in ("LlamaForCausalLM", "AutoencoderKL")),
    ],
)
def test_what_no_library_writes_or_was_not_proved_is_nothing_to_compare(config, said):
    with pytest.raises(NothingToCompare, match=said):
        lookup(as_listed(config))


@functools.cache
def by_type():
    """A class of each type; to look takes seconds, for it imports the code of all."""
    return {getattr(transformers, name).config_class.model_type: name for _, name, _, _ in cases()}


@pytest.mark.long
def test_the_settings_of_every_type_are_those_that_were_tried():
    assert by_type().keys() - kinds().keys() == set(), "new types: python -m tests.settings tries their settings"
    now = {kind: digest(getattr(transformers, name).config_class) for kind, name in by_type().items()}
    changed = {kind for kind, settings in now.items() if kinds()[kind].settings != settings}
    assert len(now) > 300
    assert changed == set(), "transformers gave them other settings: python -m tests.settings"


@pytest.mark.parametrize("name", ["DbrxModel", "Gemma4TextModel"])
@pytest.mark.long
def test_what_is_stored_is_what_the_module_does(name, tmp_path):
    found = []
    for number, (listed, _, _, wanted) in enumerate(case for case in cases() if case[1] == name):
        tiny = Tried(listed, name, wanted, tmp_path / str(number))
        row = {"class": name, "type": tiny.said["model_type"], "tensors": list(tiny.tensors())}
        found.append(row | {"keys": tried(tiny, by_type())})
    (said,) = json.loads(table(found)).values()
    stored = kinds()[found[0]["type"]]
    assert said["rest"].keys() == stored.rest.keys()
    assert said.get("small", {}).keys() == stored.small.keys()


def test_a_range_holds_what_lies_in_it_and_words_are_told_from_numbers():
    numbers, words = Fine(least=1, most=10, others=(None,)), Fine(others=(True, "silu"))
    assert (str(numbers), str(words)) == ("numbers from 1 to 10", 'true or "silu"')
    assert all(map(numbers.holds, (1, 10, 5.5, None, [1, 10], True)))
    assert not any(map(numbers.holds, (0, 11, -1, math.nan, "5", [1, 11], 10**400)))
    assert all(map(words.holds, (True, 1, "silu")))
    assert not any(map(words.holds, (False, 0, 2, "relu", None)))


def gemma(**changes):
    config = {"model_type": "gemma4", "architectures": ["Gemma4ForConditionalGeneration"], **changes}
    return list(settings_reservations(config, None))


def test_a_setting_is_found_inside_whether_a_configuration_says_its_type_or_not():
    for inside in ({"model_type": "gemma4_text"}, {}):
        assert gemma(text_config=inside | {"top_k_experts": 8}) == []
        (sentence,) = gemma(text_config=inside | {"top_k_experts": 0})
        assert sentence == (
            "config.json says `top_k_experts: 0`, with which a branch of the layers of gemma4_text may not reach the "
            "stream; with numbers from 1 every branch does"
        )
    assert gemma(top_k_experts=0, vision_config={"top_k_experts": 0}) == []  # nothing reads it there


@pytest.mark.parametrize("value", ["\x1b[31m", {}, [[]], [{"a": 1}], 10**400, -math.inf, [None, "x"], True])
def test_whatever_stands_in_a_configuration_is_answered(value):
    for changes in ({"top_k_experts": value}, {"text_config": {"top_k_experts": value}}, {"text_config": value}):
        assert all("\x1b" not in sentence for sentence in gemma(**changes))
    assert all("\x1b" not in sentence for sentence in settings_reservations({"model_type": value}, None))
    assert list(parts({"model_type": value}, None)) == []


USUAL = (
    {
        **{"rms_norm_eps": 1e-5, "layer_norm_eps": 1e-12, "layer_norm_epsilon": 1e-5, "norm_eps": 1e-6},
        **{"tie_word_embeddings": True, "use_cache": False, "dtype": "bfloat16", "torch_dtype": "float16"},
        **{"hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh", "hidden_dropout": 0.1},
        **{"attention_dropout": 0.1, "pretraining_tp": 2, "logits_scaling": 8.0, "logit_scale": 0.0625},
        **{"norm_topk_prob": True, "scoring_func": "sigmoid", "topk_method": "noaux_tc", "routed_scaling_factor": 2.5},
        **{"num_experts_per_tok": 8, "n_group": 8, "topk_group": 4, "first_k_dense_replace": 3, "n_shared_experts": 1},
        **{"sliding_window": 4096, "initializer_range": 0.006, "router_aux_loss_coef": 0.0},
        **{"embedding_multiplier": 12, "attention_multiplier": 0.0078125, "residual_multiplier": 0.22},
        "final_logit_softcapping": 30.0,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    },
    {
        **{"rms_norm_eps": 1e-6, "layer_norm_eps": 1e-5, "tie_word_embeddings": False, "hidden_act": "relu2"},
        **{"norm_topk_prob": False, "scoring_func": "softmax", "routed_scaling_factor": 16.0, "num_experts_per_tok": 1},
        **{"n_group": 1, "topk_group": 1, "sliding_window": None, "use_sliding_window": False, "rope_scaling": None},
        **{"attention_bias": True, "mlp_bias": True, "qk_layernorm": True, "attn_logit_softcapping": 50.0},
        **{"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0}, "head_dim": 128},
        **{"query_pre_attn_scalar": 256, "partial_rotary_factor": 0.5, "swiglu_limit": 7.0, "clip_qkv": 8.0},
        **{"num_hidden_layers": 48, "hidden_size": 5120, "max_position_embeddings": 1048576, "rope_theta": 1e7},
    },
)  # what published models say in other ways than the defaults


def with_usual(config, usual):
    inner = {key: with_usual(value, usual) for key, value in config.items() if isinstance(value, dict)}
    return config | inner | {key: value for key, value in usual.items() if key in config}


@pytest.mark.long
def test_usual_settings_give_no_reservation_and_are_not_refused():
    """Every default, and the same with what is usual under the keys that it has."""
    reserved, classes = {}, {}
    for name in (name for listed in factorizations() for name in listed.classes if hasattr(transformers, name)):
        classes.setdefault(getattr(transformers, name).config_class, name)
    assert len(classes) == 382
    for (kind, name), usual in product(classes.items(), ({}, *USUAL)):
        config = with_usual(kind().to_dict(), usual) | {"architectures": [name]}
        reasons = list(settings_reservations(config, usual_type(config, name)))
        try:
            notes(config)
        except NothingToCompare as error:
            reasons += [str(error)] if "correct it" in str(error) else []
        reserved |= {name: reasons} if reasons else {}
    assert reserved == {}
