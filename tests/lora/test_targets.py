"""Modules that peft passes over are found by peft's own rule."""

from types import SimpleNamespace

from hf_lineage.lora.placement import ModuleNames, find_idle

MODULES = (
    "model.layers.0.self_attn.q_proj",
    "model.layers.11.self_attn.q_proj",
    "model.layers.1.mlp.experts.0.down_proj",
    "model.layers.1.mlp.down_proj",
    "lm_head",
)


CONFIGS = [
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
]


def test_modules_are_adapted_that_peft_adapts():
    from peft.tuners.tuners_utils import check_target_module_exists

    for config in CONFIGS:
        peft = SimpleNamespace(**{"target_modules": None, "target_parameters": None} | config)
        by_peft = [module for module in MODULES if check_target_module_exists(peft, module) is True]
        assert [module for module in MODULES if module not in find_idle(config, MODULES)] == by_peft


QUERY, EXPERTS, LAYER = "h.0.self_attn.q_proj", "h.0.mlp.experts", "h.0.mlp.experts.base_layer"
HOSTILE = [
    ({"target_modules": "(a+)+$"}, "a" * 100, False),
    ({"target_parameters": ["experts.down"]}, "model.layers.0.mlp", True),
    ({"target_modules": ["b"]}, "a." * 10_000 + "b", True),
    *(
        ({"target_modules": ["down_proj"], "layers_to_transform": numbers}, "model.layers.1.down_proj", True)
        for numbers in ("1", {"a": 1}, [None], 10**400)
    ),
]


def test_no_pattern_is_run_and_no_strange_number_or_long_name_names_a_target():
    assert [bool(find_idle(config, [module])) for config, module, _ in HOSTILE] == [idle for *_, idle in HOSTILE]
    for parameter, adapted in PARAMETERS.items():
        idle = find_idle({"target_modules": ["v_proj"], "target_parameters": [parameter]}, [QUERY, EXPERTS, LAYER])
        assert {QUERY, EXPERTS, LAYER} - idle == adapted


PARAMETERS = {
    "gate_up_proj": {EXPERTS, LAYER},
    "mlp.experts.down_proj": {EXPERTS, LAYER},
    "self_attn.q_proj.weight": {QUERY},
    "nothing.there": set(),
}


NAMES = ("model.layers.0.up.weight", "model.layers.0.up.bias", "embed.weight", "a.b_c.weight", "a_b.c.weight")


FOUND = {
    "model.layers.0.up": "model.layers.0.up.weight",
    "layers.0.up": "model.layers.0.up.weight",
    "wrapped.model.layers.0.up": "model.layers.0.up.weight",
    "embed": "embed.weight",
    "model.layers.1.up": None,
    "": None,
}


def test_a_module_is_found_with_a_prefix_or_not_and_flat_names_may_mean_several():
    assert {module: ModuleNames(NAMES).tensor(module) for module in FOUND} == FOUND
    assert ModuleNames(["a.layers.0.up.weight", "b.layers.0.up.weight"]).tensor("layers.0.up") is None
    names = ModuleNames(NAMES)
    assert names.flattened["model_layers_0_up"] == ["model.layers.0.up.weight"]
    assert names.flattened["a_b_c"] == ["a.b_c.weight", "a_b.c.weight"]
    assert "model.layers.0.up" not in names.flattened
