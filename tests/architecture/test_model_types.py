"""What is known of settings by running the classes, and what that says of the configurations that there are."""

import functools
import json
import math

import numpy as np
import pytest

from hf_lineage.architecture.config_checks import settings_notes, usual_type
from hf_lineage.architecture.model_types import Fine, kinds, parts, scalar_reservations, settings_reservations
from hf_lineage.architecture.registry import factorizations, lookup
from hf_lineage.errors import NothingToCompare
from tests.conformance.effects import Tried
from tests.conformance.forms import variants
from tests.conformance.models import transformers
from tests.conformance.tiny import build_tiny_model
from tests.settings import cases, digest, table, tried

COMMAND = "python -m tests.settings"


@functools.cache
def by_type():
    """A class of each type; to look takes seconds, for it imports the code of all."""
    return {getattr(transformers, name).config_class.model_type: name for _, name, _, _ in cases()}


@pytest.mark.long
def test_the_settings_of_every_type_are_those_that_were_tried():
    assert by_type().keys() - kinds().keys() == set(), f"new types: {COMMAND} tries their settings"
    now = {kind: digest(getattr(transformers, name).config_class) for kind, name in by_type().items()}
    changed = {kind for kind, settings in now.items() if kinds()[kind].settings != settings}
    assert len(now) > 300
    assert changed == set(), f"transformers gave them other settings: {COMMAND}"


@pytest.mark.parametrize("name", ["DbrxModel", "Gemma4TextModel"])
@pytest.mark.long
def test_what_is_stored_is_what_the_module_does(name, tmp_path):
    found = []
    for number, (listed, _, _, wanted) in enumerate([case for case in cases() if case[1] == name]):
        tiny = Tried(listed, name, wanted, tmp_path / str(number))
        row = {"class": name, "type": tiny.said["model_type"], "tensors": list(tiny.tensors())}
        found.append(row | {"keys": tried(tiny, by_type())})
    (said,) = json.loads(table(found)).values()
    stored = kinds()[found[0]["type"]]
    assert said["rest"].keys() == stored.rest.keys()
    assert said.get("small", {}).keys() == stored.small.keys()


def test_a_range_holds_what_lies_in_it():
    fine = Fine(least=1, most=10, others=(None,))
    assert [fine.holds(value) for value in (1, 10, 5.5, None, [1, 10])] == [True] * 5
    assert [fine.holds(value) for value in (0, 11, -1, math.nan, "5", [1, 11], 10**400, True)] == [False] * 7 + [True]
    assert str(fine) == "numbers from 1 to 10"


def test_switches_and_words_are_told_apart_from_numbers():
    fine = Fine(others=(True, "silu"))
    assert [fine.holds(value) for value in (True, 1, "silu")] == [True] * 3
    assert [fine.holds(value) for value in (False, 0, 2, "relu", None)] == [False] * 5
    assert str(fine) == 'true or "silu"'


def gemma(**changes):
    config = {"model_type": "gemma4", "architectures": ["Gemma4ForConditionalGeneration"], **changes}
    return list(settings_reservations(config, None))


def test_a_setting_is_found_in_a_configuration_inside_whether_it_says_its_type_or_not():
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
        **{
            "sliding_window": 4096,
            "initializer_range": 0.006,
            "router_aux_loss_coef": 0.0,
            "residual_multiplier": 0.22,
        },
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
)
"""What published models say in other ways than the defaults."""


def honest():
    """Class and `config.json` of every default, and the same with what is usual under the keys that it has."""
    classes = {}
    for name in (name for listed in factorizations() for name in listed.classes if hasattr(transformers, name)):
        classes.setdefault(getattr(transformers, name).config_class, name)
    for kind, name in classes.items():
        config = kind().to_dict()
        for usual in ({}, *USUAL):
            yield name, _otherwise(config, usual) | {"architectures": [name]}


def _otherwise(config, usual):
    inner = {key: _otherwise(value, usual) for key, value in config.items() if isinstance(value, dict)}
    return config | inner | {key: value for key, value in usual.items() if key in config}


@pytest.mark.long
def test_usual_settings_give_no_reservation_and_are_not_refused():
    seen, reserved = 0, {}
    for name, config in honest():
        seen += 1
        reasons = list(settings_reservations(config, usual_type(config, name)))
        try:
            settings_notes(config, *lookup(config))
        except NothingToCompare as error:
            reasons += [str(error)] if "correct it" in str(error) else []
        if reasons:
            reserved[name] = reasons
    assert seen == 3 * 382
    assert reserved == {}


GEMMA = "Gemma4TextModel"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return build_tiny_model(GEMMA, tmp_path_factory.mktemp("tiny"), variants(GEMMA)[1])


def said(tiny, **stored):
    """What is said of a tiny model, other numbers in place of those of some tensors."""

    def read(name):
        values = tiny.read(name).copy()
        values[...] = stored.get(name.rpartition(".")[2], values)
        return values

    config = tiny.model.config.to_dict()
    return list(scalar_reservations(tiny.layout, tiny.shapes, read, parts(config, None)))


def test_what_training_leaves_is_nothing_to_say(tiny):
    assert said(tiny, per_expert_scale=1.0, layer_scalar=0.5) == []


@pytest.mark.parametrize("value", [0.0, 1e-7, -1e-9, math.nan])
def test_experts_that_are_multiplied_with_nothing_are_named_once_for_all_layers(tiny, value):
    (sentence,) = said(tiny, per_expert_scale=value, layer_scalar=1.0)
    assert sentence.startswith("layers.0.router.per_expert_scale holds numbers of the size ")
    assert sentence.endswith("(1 more layers have such a tensor too)")


def test_one_expert_that_is_multiplied_with_nothing_is_enough(tiny):
    assert len(said(tiny, per_expert_scale=np.array([1.0, 1.0, 0.0, 1.0]), layer_scalar=1.0)) == 1


def test_of_a_number_for_each_coordinate_the_mean_counts(tiny):
    some = np.where(np.arange(32) % 2, 0.0, 1.0)
    assert said(tiny, per_expert_scale=1.0, layer_scalar=1.0, weight=some) == []
    (sentence,) = said(tiny, per_expert_scale=1.0, layer_scalar=1.0, weight=1e-5)
    assert "layers.0.post_feedforward_layernorm.weight holds" in sentence


def test_a_tensor_that_cannot_be_read_or_has_no_numbers_is_a_reason_too(tiny):
    def refused(name):
        raise NothingToCompare(f"{name} is stored in a way that nobody knows")

    config, shapes = tiny.model.config.to_dict(), dict(tiny.shapes)
    found = list(scalar_reservations(tiny.layout, shapes, refused, parts(config, None)))
    assert any("is stored in a way that nobody knows; it decides whether a branch" in each for each in found)
    shapes["layers.0.router.per_expert_scale"] = (0,)
    found = list(scalar_reservations(tiny.layout, shapes, tiny.read, parts(config, None)))
    assert any(each.startswith("layers.0.router.per_expert_scale has shape (0,)") for each in found)
