"""Which tensor of a model a module is, as adapters name it."""

import pytest

from hf_lineage.checkpoint.lora.module_names import ModuleNames

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
