"""Modules that peft passes over are found by peft's own rule."""

from types import SimpleNamespace

import pytest

from hf_lineage.lora.targets import ModuleNames, find_idle

MODULES = (
    "model.layers.0.self_attn.q_proj",
    "model.layers.11.self_attn.q_proj",
    "model.layers.1.mlp.experts.0.down_proj",
    "model.layers.1.mlp.down_proj",
    "lm_head",
)


@pytest.mark.parametrize(
    "config",
    [
        {"target_modules": ["q_proj"]},
        {"target_modules": ["proj"]},
        {"target_modules": ["self_attn.q_proj", "lm_head"]},
        {"target_modules": ["q_proj", "down_proj"], "exclude_modules": ["mlp.down_proj"]},
        {"target_modules": ["q_proj", "down_proj"], "layers_to_transform": [1]},
        {"target_modules": ["q_proj", "down_proj", "lm_head"], "layers_to_transform": 0},
        {"target_modules": ["q_proj"], "layers_to_transform": []},
        {"target_modules": []},
        {"target_modules": ["q_proj", "down_proj"], "modules_to_save": ["mlp"]},
        {"target_modules": ["q_proj", "down_proj"], "modules_to_save": ["1.self_attn", "q_proj"]},
    ],
)
def test_modules_are_adapted_that_peft_adapts(config):
    from peft.tuners.tuners_utils import check_target_module_exists

    peft = SimpleNamespace(**{"target_modules": None, "target_parameters": None} | config)
    by_peft = [module for module in MODULES if check_target_module_exists(peft, module) is True]
    assert [module for module in MODULES if module not in find_idle(config, MODULES)] == by_peft


def test_a_pattern_is_not_run():
    assert not find_idle({"target_modules": "(a+)+$"}, ["a" * 100])


def test_without_modules_only_parameters_are_adapted():
    assert find_idle({"target_parameters": ["experts.down"]}, ["model.layers.0.mlp"])


@pytest.mark.parametrize("numbers", ["1", {"a": 1}, [None], 10**400])
def test_hostile_numbers_name_no_layer(numbers):
    config = {"target_modules": ["down_proj"], "layers_to_transform": numbers}
    assert find_idle(config, ["model.layers.1.down_proj"])


@pytest.mark.parametrize(
    ("parameters", "held"),
    [
        (["gate_up_proj"], {"model.layers.0.mlp.experts", "model.layers.0.mlp.experts.base_layer"}),
        (["mlp.experts.down_proj"], {"model.layers.0.mlp.experts", "model.layers.0.mlp.experts.base_layer"}),
        (["self_attn.q_proj.weight"], {"model.layers.0.self_attn.q_proj"}),
        (["nothing.there"], set()),
    ],
)
def test_a_parameter_that_is_adapted_by_itself_lets_no_other_module_through(parameters, held):
    modules = ["model.layers.0.self_attn.q_proj", "model.layers.0.mlp.experts", "model.layers.0.mlp.experts.base_layer"]
    idle = find_idle({"target_modules": ["v_proj"], "target_parameters": parameters}, modules)
    assert {*modules} - idle == held


def test_a_name_of_more_words_than_any_module_has_is_no_target():
    assert find_idle({"target_modules": ["b"]}, ["a." * 10_000 + "b"])


NAMES = ("model.layers.0.up.weight", "model.layers.0.up.bias", "embed.weight", "a.b_c.weight", "a_b.c.weight")


@pytest.mark.parametrize(
    ("module", "tensor"),
    [
        ("model.layers.0.up", "model.layers.0.up.weight"),
        ("layers.0.up", "model.layers.0.up.weight"),
        ("wrapped.model.layers.0.up", "model.layers.0.up.weight"),
        ("embed", "embed.weight"),
        ("model.layers.1.up", None),
        ("", None),
    ],
)
def test_a_module_is_found_with_a_prefix_more_or_less(module, tensor):
    assert ModuleNames(NAMES).tensor(module) == tensor


def test_a_prefix_that_could_be_left_out_of_two_names_is_ambiguous():
    assert ModuleNames(["a.layers.0.up.weight", "b.layers.0.up.weight"]).tensor("layers.0.up") is None


def test_a_flattened_name_may_mean_several_tensors():
    names = ModuleNames(NAMES)
    assert names.flattened("model_layers_0_up") == ["model.layers.0.up.weight"]
    assert names.flattened("a_b_c") == ["a.b_c.weight", "a_b.c.weight"]
    assert names.flattened("model.layers.0.up") == []
