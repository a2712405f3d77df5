"""Where a base holds the matrices of an adapter, which can be tested, and which peft passes over by its own rule."""

from dataclasses import replace
from types import SimpleNamespace

import msgspec
import pytest

from hf_lineage.hub.repo import RepoRef
from hf_lineage.lora import placement
from hf_lineage.lora.placement import ModuleNames, find_idle, list_pairs
from hf_lineage.source.config import read_config
from hf_lineage.source.headers import read_headers
from tests import pictures
from tests.adapters import everything, lora_of, opened_base
from tests.models import HIDDEN, WIDTH, edit_json, tiny_llama


@pytest.fixture
def llama(tmp_path):
    return opened_base(tiny_llama(tmp_path / "base"))


NAMES = [
    ("model.", None, True),
    ("", None, True),
    ("language_model.model.", None, False),
    ("model.model.", None, False),
    ("", "CAUSAL_LM", False),
]


@pytest.mark.parametrize(("prefix", "task", "found"), NAMES)
def test_a_module_is_found_with_the_prefix_of_the_class_or_without_it_and_others_are_idle(
    tmp_path, llama, prefix, task, found
):
    name = f"{prefix}layers.0.mlp.up_proj"
    places = placement.find_places(llama, lora_of(tmp_path / "lora", (name, HIDDEN, WIDTH), task_type=task))
    assert [place.slot.role for place in places.everything] == (["up"] if found else [])
    assert (places.absent, places.idle) == ((), () if found else (name,))


def test_coordinates_that_are_not_exchangeable_are_not_permuted_and_no_pair_is_made_up(tmp_path, llama):
    lora = lora_of(tmp_path / "lora", *everything())
    changed = msgspec.structs.replace(llama.layout.factorization, exchangeable=False)
    fixed = replace(llama, layout=replace(llama.layout, factorization=changed))
    roles = {place.role for place in placement.testable(placement.find_places(fixed, lora), fixed)}
    assert roles == {"up", "gate", "value"}
    assert [*list_pairs(llama)] == [], "its registry file names no pair"


@pytest.fixture(scope="module")
def unet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    pictures.pipeline(folder, 0)
    return folder / "unet"


HEADS = [
    (4, {(32, 8), (64, 16)}),
    ([2, 4], {(32, 8), (64, 16)}),
    ([2, 3], {(32, 16), (64, 32)}),
    (1, {(32, 32), (64, 64)}),
    *((counts, set()) for counts in (None, 0, -2, "2", True, 2.0, [], [2, None], [2] * 65, 3, 64, {"a": 2})),
]


@pytest.mark.parametrize(("counts", "expected"), HEADS)
def test_rows_are_grouped_by_what_divides_a_head_and_nothing_is_paired_without_a_number(unet, counts, expected):
    edit_json(unet / "config.json", attention_head_dim=counts)
    pairs = [layer_set for _, layer_set in list_pairs(read_headers(read_config(RepoRef("acme/unet", unet))))]
    assert {(layer_set.width, layer_set.heads["value"].size) for layer_set in pairs} == expected


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


HOSTILE = [
    ({"target_modules": "(a+)+$"}, "a" * 100, False),
    ({"target_parameters": ["experts.down"]}, "model.layers.0.mlp", True),
    ({"target_modules": ["b"]}, "a." * 10_000 + "b", True),
    *(
        ({"target_modules": ["down_proj"], "layers_to_transform": numbers}, "model.layers.1.down_proj", True)
        for numbers in ("1", {"a": 1}, [None], 10**400)
    ),
]


@pytest.mark.parametrize(("config", "module", "idle"), HOSTILE, ids=range(len(HOSTILE)))
def test_no_pattern_is_run_no_strange_number_names_a_layer_and_no_long_name_a_target(config, module, idle):
    assert bool(find_idle(config, [module])) is idle


QUERY, EXPERTS, LAYER = "h.0.self_attn.q_proj", "h.0.mlp.experts", "h.0.mlp.experts.base_layer"
PARAMETERS = {
    "gate_up_proj": {EXPERTS, LAYER},
    "mlp.experts.down_proj": {EXPERTS, LAYER},
    "self_attn.q_proj.weight": {QUERY},
    "nothing.there": set(),
}


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_a_parameter_that_is_adapted_by_itself_lets_no_other_module_through(parameter):
    idle = find_idle({"target_modules": ["v_proj"], "target_parameters": [parameter]}, [QUERY, EXPERTS, LAYER])
    assert {QUERY, EXPERTS, LAYER} - idle == PARAMETERS[parameter]


TENSORS = ("model.layers.0.up.weight", "model.layers.0.up.bias", "embed.weight", "a.b_c.weight", "a_b.c.weight")


FOUND = {
    "model.layers.0.up": "model.layers.0.up.weight",
    "layers.0.up": "model.layers.0.up.weight",
    "wrapped.model.layers.0.up": "model.layers.0.up.weight",
    "embed": "embed.weight",
    "model.layers.1.up": None,
    "": None,
}


def test_a_module_is_found_with_a_prefix_more_or_less_and_flattened_names_may_mean_several():
    assert {module: ModuleNames(TENSORS).tensor(module) for module in FOUND} == FOUND
    assert ModuleNames(["a.layers.0.up.weight", "b.layers.0.up.weight"]).tensor("layers.0.up") is None
    names = ModuleNames(TENSORS)
    assert names.flattened["model_layers_0_up"] == ["model.layers.0.up.weight"]
    assert names.flattened["a_b_c"] == ["a.b_c.weight", "a_b.c.weight"]
    assert "model.layers.0.up" not in names.flattened
