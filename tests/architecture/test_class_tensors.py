import math

import pytest

from hf_lineage.architecture.class_tensors import OF_LISTS, OF_NUMBERS, holds, match_class_tensors, places, value_of
from hf_lineage.architecture.registry import lookup
from hf_lineage.errors import CheckpointError, NothingToCompare

LAYER = "model.layers.0"
ATTENTION = {f"self_attn.{role}_proj.weight" for role in "qkvo"}
NORMS = {"input_layernorm.weight", "post_attention_layernorm.weight"}
BESIDE = {"model.embed_tokens.weight", "model.norm.weight"}
PARTS = ("gate", "up", "down")
DENSE = {f"mlp.{role}_proj.weight" for role in PARTS}
LLAMA = ATTENTION | NORMS | DENSE
SPARSE = {f"mlp.experts.{expert}.{role}_proj.weight" for role in PARTS for expert in (0, 1)} | {"mlp.gate.weight"}
INNER_NORMS = {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}
QWEN = ATTENTION | NORMS | SPARSE | INNER_NORMS
SHARED = {f"mlp.shared_expert.{role}_proj.weight" for role in PARTS}


def tensors_of(architecture, names, prefix=LAYER, beside=BESIDE, **config):
    config = {"architectures": [architecture], **config}
    shapes = dict.fromkeys(beside | {f"{prefix}.{name}" for name in names}, (4, 4))
    return match_class_tensors(architecture, lookup(config)[1], shapes, config)


def outside(known):
    return {name.removeprefix(f"{LAYER}.") for name in known.unexpected}


def test_a_model_as_it_is_saved_is_all_that_its_class_builds_under_its_prefix():
    bare = tensors_of("LlamaForCausalLM", LLAMA, "layers.0", {"embed_tokens.weight", "norm.weight"})
    for known in (tensors_of("LlamaForCausalLM", LLAMA), tensors_of("Qwen3MoeForCausalLM", QWEN), bare):
        assert (known.unexpected, known.unaccounted, known.missing, known.reservations) == (frozenset(), (), (), ())
    with pytest.raises(NothingToCompare, match="where LlamaModel has none: transformers fills all"):
        tensors_of("LlamaModel", LLAMA, "transformer.layers.0", {"transformer.embed_tokens.weight"})


def test_a_tensor_of_another_class_is_no_part_and_is_named():
    known = tensors_of("Qwen3MoeForCausalLM", QWEN | SHARED)
    assert (outside(known), known.unaccounted) == (SHARED, tuple(sorted(f"{LAYER}.{name}" for name in SHARED)))
    assert outside(tensors_of("Qwen2MoeForCausalLM", QWEN | SHARED)) == INNER_NORMS


@pytest.mark.parametrize(
    ("config", "built", "left"),
    [
        *((dense, DENSE, SPARSE) for dense in ({"num_experts": 0}, {"num_local_experts": 0}, {"mlp_only_layers": [0]})),
        *((sparse, SPARSE, DENSE) for sparse in ({}, {"mlp_only_layers": [1]})),
        ({"decoder_sparse_step": 2}, DENSE, SPARSE),
    ],
)
def test_a_setting_decides_which_of_two_parts_is_built(config, built, left):
    both = tensors_of("Qwen3MoeForCausalLM", QWEN | DENSE, **config)
    assert outside(both) == left
    assert both.missing == ()
    alone = tensors_of("Qwen3MoeForCausalLM", (QWEN | DENSE) - built, **config)
    lacking = {f"{LAYER}.{name.replace('.0.', '.*.')}" for name in built if ".1." not in name}
    assert set(alone.missing) == lacking
    for value in ("x", [None], {"a": 1}, 1e300, -1):  # a setting of a wrong kind makes nothing certain
        settings = {"decoder_sparse_step": value, "mlp_only_layers": value}
        assert tensors_of("Qwen3MoeForCausalLM", QWEN | DENSE, **settings).missing == ()


@pytest.mark.parametrize("asked", [True, False])
def test_a_bias_counts_where_the_class_has_it(asked):
    biases = {f"mlp.{role}_proj.bias" for role in PARTS}
    assert outside(tensors_of("LlamaForCausalLM", LLAMA | biases, mlp_bias=asked)) == (set() if asked else biases)
    assert tensors_of("LlamaForCausalLM", LLAMA, mlp_bias=asked).missing == ()
    assert outside(tensors_of("Qwen2ForCausalLM", LLAMA | biases, mlp_bias=asked)) == biases
    correction = {"mlp.gate.e_score_correction_bias"}
    assert outside(tensors_of("Qwen3MoeForCausalLM", QWEN | correction)) == correction


def test_what_is_not_stored_is_made_up_at_random():
    known = tensors_of("LlamaForCausalLM", LLAMA - {"mlp.up_proj.weight"}, beside=BESIDE - {"model.norm.weight"})
    assert set(known.missing) == {"model.norm.weight", "model.layers.0.mlp.up_proj.weight"}
    (reservation,) = known.reservations
    assert reservation.startswith("2 tensors that the class has with this config.json are not stored, such as model.n")


@pytest.mark.parametrize(
    ("added", "unaccounted"),
    [
        ({"lm_head.weight", "score.weight"}, ()),
        ({f"{LAYER}.self_attn.rotary_emb.inv_freq"}, ()),
        ({"another.weight"}, ("another.weight",)),
        ({f"{LAYER}.mlp.down_proj.input_scale"}, (f"{LAYER}.mlp.down_proj.input_scale",)),
        ({"layers.0.input_layernorm.weight"}, ("layers.0.input_layernorm.weight",)),
        ({"norm.weight"}, ("model.norm.weight", "norm.weight")),
    ],
)
def test_what_the_class_does_not_save_and_every_second_name_is_unaccounted_for(added, unaccounted):
    assert tensors_of("LlamaForCausalLM", LLAMA, beside=BESIDE | added).unaccounted == unaccounted


STACK = "layers.0.experts.both"


@pytest.mark.parametrize("shape", [(4097, 8, 4), (4, 7, 4), (4, 0, 4), (4,), ()])
def test_a_shape_that_no_stack_of_experts_has_is_refused_by_its_name(shape):
    """`tests/tensors/test_tables.py` has the places of every class."""
    with pytest.raises(
        CheckpointError, match=rf"{STACK} has shape .* does not fit .*\.\*\.gate and .*\.\*\.up: the weights"
    ):
        places({"layers.*.experts.both": ("layers.*.experts.*.gate", "layers.*.experts.*.up")}, {STACK: shape})


KEYS, MAYBE = ["n", "count"], ["maybe"]


@pytest.mark.parametrize(
    ("condition", "config", "answers"),
    [
        (["all"], {}, [True] * 4),
        (["any"], {}, [False] * 4),
        (["first"], {}, [True, False, False, False]),
        (["true", KEYS, 3], {}, [True] * 4),
        *((["true", KEYS, 3], said, [False] * 4) for said in ({"n": 0}, {"count": 0}, {"n": None})),
        (["is", KEYS, None, [None]], {}, [True] * 4),
        (["is", KEYS, None, ["a", "b"]], {"n": "b"}, [True] * 4),
        (["above", KEYS, 0, 1], {"n": 2}, [True] * 4),
        (["from", KEYS, 0], {"n": 2}, [False, False, True, True]),
        (["to", KEYS, 0], {"n": 2}, [True, True, True, False]),
        (["to", KEYS, 0], {"n": -2}, [True, True, True, False]),
        (["last", KEYS, 0], {"n": 1}, [False, False, False, True]),
        (["every", KEYS, 1, 1], {"n": 2}, [False, True, False, True]),
        (["every", KEYS, 1, 0], {"n": 0}, [False] * 4),
        (["every", KEYS, 1, -1], {"n": 3}, [False, True, False, False]),
        (["cycle", [KEYS, 1], [["m"], 1]], {"n": 2}, [False, True, False, True]),
        (["holds", KEYS, None], {"n": [1, 2]}, [False, True, True, False]),
        (["holds", KEYS, None], {}, [False] * 4),
        (["word", KEYS, None, ["moe"]], {"n": ["dense", "moe"]}, [False, True, False, True]),
        (["entry", KEYS, None], {"n": [1, 0, 0, 1]}, [True, False, False, True]),
        (["not", ["first"]], {}, [False, True, True, True]),
        (["all", ["first"], ["true", KEYS, 1]], {}, [True, False, False, False]),
        (["any", ["first"], ["true", KEYS, 1]], {}, [True] * 4),
        (["listed", KEYS, ["holds", KEYS, None], ["first"]], {"n": [3]}, [False, False, False, True]),
        (["listed", KEYS, ["holds", KEYS, None], ["first"]], {"n": 3}, [True, False, False, False]),
        *((unknown, {}, [None] * 4) for unknown in (MAYBE, ["not", MAYBE], ["all", MAYBE, ["all"]])),
        (["all", MAYBE, ["any"]], {}, [False] * 4),
        (["any", MAYBE, ["all"]], {}, [True] * 4),
    ],
)
def test_a_condition_is_answered_for_every_layer_and_what_nobody_knows_is_unknown(condition, config, answers):
    assert [holds(condition, config, layer, 4) for layer in range(4)] == answers


@pytest.mark.parametrize("value", [None, True, -1, 0, 2.5, math.nan, "x", [], [[]], {}, {"a": 1}, 10**400])
@pytest.mark.parametrize("kind", [*OF_NUMBERS, *OF_LISTS, "true", "is", "holds"])
def test_any_value_of_config_json_is_answered_or_unknown(kind, value):
    inner = [value_of({"text_config": said}, ["text_config.n"], 5) for said in ({"n": value}, {"n": None}, 3)]
    assert inner == [value, None, 5]
    told = {"is": [[1]], "word": [["a"]], "above": [0], "every": [1]}.get(kind, [])
    assert holds([kind, KEYS, None, *told], {"n": value}, 1, 4) in (True, False, None)
    assert holds(["cycle", [KEYS, 1], [["m"], 1]], {"n": value, "m": value}, 1, 4) in (True, False, None)
