"""What a tiny model takes over from an untrusted config.json."""

import pytest

from hf_lineage.running.model.models import select_overrides


def test_switches_and_words_are_taken_over_and_sizes_are_not():
    config = {"hidden_act": "gelu", "parallel": True, "hidden_size": 4096, "rope_theta": 1e4, "text": "two words"}
    assert select_overrides(config, {}) == {"hidden_act": "gelu", "parallel": True}


def test_those_of_a_configuration_in_another_are_taken_over_too():
    config = {"text_config": {"model_type": "llama", "hidden_size": 1}, "rope_scaling": {"rope_type": "yarn"}}
    assert select_overrides(config, {"text_config": object}) == {"text_config": {"model_type": "llama"}}


def test_one_layer_of_each_kind_stands_for_all():
    kinds = ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]
    config = {"num_hidden_layers": 4, "layer_types": kinds, "mlp_layer_types": ["dense", "dense", "sparse", "sparse"]}
    assert select_overrides(config, {}) == {
        "num_hidden_layers": 4,
        "layer_types": kinds,
        "mlp_layer_types": ["dense", "dense", "sparse", "sparse"],
    }
    alike = {"num_hidden_layers": 9, "layer_types": ["full_attention"] * 9}
    assert select_overrides(alike, {}) == {"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2}


REFUSED = (
    "_attn_implementation attn_implementation use_timm_backbone backbone use_pretrained_backbone auto_map "
    "_name_or_path torch_dtype quantization_config use_kernels trust_remote_code"
)


@pytest.mark.parametrize("key", REFUSED.split())
def test_what_names_something_to_load_is_never_taken_over(key):
    assert select_overrides({key: "wren"}, {key: object}) == select_overrides({key: True}, {}) == {}
    assert select_overrides({"other": "org/model", "another": "https://x"}, {}) == {}


def test_a_model_of_very_many_kinds_stays_tiny():
    config = {"num_hidden_layers": 500, "layer_types": [f"kind_{number}" for number in range(500)]}
    assert select_overrides(config, {})["num_hidden_layers"] == 8
