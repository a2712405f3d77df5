"""The names of an exported graph become those of the Hub, whatever wrapped the model; joined matrices are parted."""

import pytest

from hf_lineage.architecture.registry.lookups import lookup
from hf_lineage.checkpoint.foreign.onnx.names import name_tensors
from hf_lineage.checkpoint.foreign.pieces import Piece, name_in_out, split_rows, strip_common_prefix
from hf_lineage.errors import NothingToCompare

LLAMA, GPT2, BERT, PHI3 = (
    lookup({"architectures": [name]})[1]
    for name in ("LlamaForCausalLM", "GPT2LMHeadModel", "BertModel", "Phi3ForCausalLM")
)
CONFIG = {"num_attention_heads": 4, "num_key_value_heads": 2}


def names(factorization, *stored, config=CONFIG, shape=(8, 4)):
    return [piece.name for piece in name_tensors(factorization, dict.fromkeys(stored, shape), config)]


@pytest.mark.parametrize("prefix", ["", "inner.", "model.0.auto_model.", "model."])
def test_what_wraps_the_model_is_taken_off_all_names(prefix):
    own = ["embeddings.word_embeddings.weight", "encoder.layer.0.intermediate.dense.weight", "pooler.dense.bias"]
    assert names(BERT, *(prefix + name for name in own)) == own


def test_a_prefix_that_not_all_names_have_is_part_of_them():
    assert names(LLAMA, "model.layers.0.mlp.up_proj.weight", "lm_head.weight")[0] == "model.layers.0.mlp.up_proj.weight"
    strange = ["a.layers.0.up.weight", "b.x.weight"]
    assert names(BERT, *strange) == strange
    assert names(BERT) == []


def test_names_that_onnx_runtime_shortens_are_whole_again():
    stored = [
        "model.layers.0.attn.q_proj.weight",
        "model.layers.0.attn.o_proj.weight",
        "model.layers.0.mlp.up_proj.weight",
    ]
    assert names(LLAMA, *stored) == [name.replace(".attn.", ".self_attn.") for name in stored]
    assert names(GPT2, "transformer.h.0.attn.c_proj.weight") == ["transformer.h.0.attn.c_proj.weight"]


def test_queries_keys_and_values_in_one_matrix_are_split_rows():
    found = [*name_tensors(LLAMA, {"model.layers.1.attn.qkv_proj.weight": (16, 8)}, CONFIG)]
    stored = "model.layers.1.attn.qkv_proj.weight"
    assert found == [
        Piece("model.layers.1.self_attn.q_proj.weight", stored, (0, 8)),
        Piece("model.layers.1.self_attn.k_proj.weight", stored, (8, 12)),
        Piece("model.layers.1.self_attn.v_proj.weight", stored, (12, 16)),
    ]
    assert names(PHI3, stored) == ["model.layers.1.self_attn.qkv_proj.weight"]


@pytest.mark.parametrize("config", [{}, {"num_attention_heads": "4"}, {"num_attention_heads": True}])
def test_without_heads_nothing_is_split_rows(config):
    with pytest.raises(NothingToCompare, match="counts the heads of attention as"):
        names(LLAMA, "model.layers.1.attn.qkv_proj.weight", config=config)


@pytest.mark.parametrize(
    ("rows", "heads", "groups"), [(10, 4, 2), (8, 0, 0), (8, 2, 4), (8, -4, -2), (2**20, 2**19, 1)]
)
def test_rows_that_are_not_those_heads_are_refused(rows, heads, groups):
    with pytest.raises(NothingToCompare):
        list(split_rows(rows, heads, groups))


def test_what_transformers_stores_the_other_way_is_turned():
    assert name_in_out(LLAMA) == frozenset()
    assert name_in_out(GPT2) == {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}
    shapes = {"h.0.mlp.c_fc.weight": (16, 4), "h.0.mlp.c_fc.bias": (16,), "wte.weight": (50, 4)}
    assert [piece.turned for piece in name_tensors(GPT2, shapes, {})] == [True, False, False]


def test_what_all_names_begin_with_is_taken_off_for_a_suggestion():
    assert [*strip_common_prefix({"a.b.c.weight": (1,), "a.b.d.weight": (1,)})] == ["c.weight", "d.weight"]
    assert [*strip_common_prefix({"a.weight": (1,), "b.weight": (1,)})] == ["a.weight", "b.weight"]
    assert strip_common_prefix({}) == {}
