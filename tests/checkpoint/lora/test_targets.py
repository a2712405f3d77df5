"""Modules that peft passes over are found by peft's own rule."""

from types import SimpleNamespace

import pytest
from peft.tuners.tuners_utils import check_target_module_exists

from hf_lineage.checkpoint.lora.targets import is_targeted

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
    ],
)
def test_modules_are_adapted_that_peft_adapts(config):
    peft = SimpleNamespace(**{"target_modules": None, "target_parameters": None} | config)
    by_peft = [module for module in MODULES if check_target_module_exists(peft, module) is True]
    assert [module for module in MODULES if is_targeted(config, module)] == by_peft


def test_a_pattern_is_not_run():
    assert is_targeted({"target_modules": "(a+)+$"}, "a" * 100)


def test_without_modules_only_parameters_are_adapted():
    assert not is_targeted({"target_parameters": ["experts.down"]}, "model.layers.0.mlp")


@pytest.mark.parametrize("numbers", ["1", {"a": 1}, [None], 10**400])
def test_hostile_numbers_name_no_layer(numbers):
    config = {"target_modules": ["down_proj"], "layers_to_transform": numbers}
    assert not is_targeted(config, "model.layers.1.down_proj")
