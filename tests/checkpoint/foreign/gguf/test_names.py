"""GGUF: every architecture of the table is proved on a tiny model, written as llama.cpp's converter would write it."""

import json
import re
import shutil
from dataclasses import replace

import gguf
import numpy as np
import pytest
import torch

from hf_lineage import Options, extract
from hf_lineage.architecture.registry.lookups import lookup
from hf_lineage.checking.judge.strict import judge_strict
from hf_lineage.checking.source.describing import described
from hf_lineage.checking.source.model import FromWeights
from hf_lineage.checking.source.opening import headers, opened
from hf_lineage.checkpoint.foreign.gguf.names import _table, architectures, config_of, name_tensors
from hf_lineage.errors import NothingToCompare, RegistryError
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.hub.reference import resolve
from tests.conformance import tiny_model
from tests.gguf_models import write

CLASSES = sorted(
    (name, kind)
    for name, entry in _table().architectures.items()
    for kind in (entry.name, entry.with_experts)
    if kind is not None
)
LLAMA = {"general.architecture": "llama"}
DROPPED = {"apertus": {"model.layers.0.mlp.act_fn.eps"}, "bert": {"pooler.dense.weight", "pooler.dense.bias"}}
"""What a converter leaves out of a model, so that a file of it is never all that the model is."""


@pytest.mark.few(12)
@pytest.mark.parametrize(("architecture", "name"), CLASSES)
def test_a_file_has_the_signature_of_the_model_it_was_made_from(architecture, name, tmp_path):
    torch.manual_seed(0)
    model = tiny_model(name, {})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    model.save_pretrained(tmp_path / "plain")
    write(tmp_path / "plain", tmp_path / "gguf/model.gguf", architecture)
    plain, stored = (headers(resolve(str(tmp_path / folder))) for folder in ("plain", "gguf"))
    assert stored.described.factorization.name == plain.described.factorization.name
    assert (stored.layout.unclaimed, stored.layout.paths) == (plain.layout.unclaimed, plain.layout.paths)
    options = Options(paths=plain.layout.paths)
    one, other = (extract(str(tmp_path / folder), options) for folder in ("plain", "gguf"))
    for path in plain.layout.paths:
        for numbers in ("sketch", "trace", "norm", "corner"):
            wanted = getattr(one.paths[path], numbers)
            largest = np.abs(wanted).max()
            np.testing.assert_allclose(getattr(other.paths[path], numbers), wanted, rtol=1e-3, atol=1e-5 * largest)
    both = (FromWeights.from_opened(model, options) for model in (plain, stored))
    strict = judge_strict(*both, Verdict(Code.INHERITED)).strict
    assert {re.sub(r"\d+", "0", name) for name in strict.lacking} == DROPPED.get(architecture, set())
    assert replace(strict, lacking=()).holds, (strict.beyond, strict.added, strict.settings, strict.unbound)
    shutil.rmtree(tmp_path)


DEAD = [
    ("granite", "residual_scale"),
    ("granite", "embedding_scale"),
    ("granite", "attention.layer_norm_rms_epsilon"),
    ("dots1", "expert_weights_scale"),
    ("glm4moe", "expert_weights_scale"),
    ("olmo", "attention.clamp_kqv"),
]


@pytest.mark.parametrize(("architecture", "key"), DEAD)
def test_metadata_that_take_the_layers_out_leave_nothing_to_judge(architecture, key, tmp_path):
    tiny_model(_table().architectures[architecture].name, {}).save_pretrained(tmp_path / "plain")
    value = 1e9 if "epsilon" in key else 1e-9
    write(tmp_path / "plain", tmp_path / "gguf/model.gguf", architecture, said={f"{architecture}.{key}": value})
    model = described(resolve(str(tmp_path / "gguf")))
    with pytest.raises(NothingToCompare, match=r"have (hardly any|no) effect; correct it"):
        opened(model)


def test_every_architecture_is_one_that_gguf_knows_and_every_class_one_of_the_registry():
    assert set(architectures()) <= set(gguf.MODEL_ARCH_NAMES.values())
    assert len(CLASSES) > 40
    for _, name in CLASSES:
        lookup({"architectures": [name], "apply_residual_connection_post_layernorm": False})


def test_the_configuration_is_that_of_the_metadata():
    metadata = LLAMA | {
        "llama.block_count": 32,
        "llama.embedding_length": 4096,
        "llama.feed_forward_length": 14336,
        "llama.attention.head_count": 32,
        "llama.attention.head_count_kv": (8, 8),
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "general.name": "a name",
        "qwen2.block_count": 7,
    }
    assert config_of(metadata) == {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "n_head": 32,
        "n_heads": 32,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
    }


def test_experts_may_make_another_class():
    assert config_of(LLAMA | {"llama.expert_count": 8})["architectures"] == ["MixtralForCausalLM"]
    assert config_of(LLAMA | {"llama.expert_count": 0})["architectures"] == ["LlamaForCausalLM"]


def test_layers_that_predict_further_tokens_are_not_counted():
    config = config_of(
        {"general.architecture": "glm4moe", "glm4moe.block_count": 47, "glm4moe.nextn_predict_layers": 1}
    )
    assert (config["num_hidden_layers"], config["num_nextn_predict_layers"]) == (46, 1)


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (
            {},
            "the GGUF file has the architecture None, which hf-lineage cannot read; check the safetensors release "
            "instead",
        ),
        (
            {"general.architecture": "mamba"},
            "the GGUF file has the architecture mamba, which hf-lineage cannot read; check th",
        ),
        (
            {"general.architecture": 7},
            "the GGUF file has the architecture 7, which hf-lineage cannot read; check the safete",
        ),
        (LLAMA | {"general.type": "adapter"}, "the GGUF file has the type adapter, not a model; check the adapter"),
    ],
)
def test_what_is_not_read_says_why(metadata, why):
    with pytest.raises(NothingToCompare) as caught:
        config_of(metadata)
    assert str(caught.value).startswith(why)


def named(architecture, *stored):
    _, factorization = lookup({"architectures": [architectures()[architecture]]})
    return [
        (each.name, each.undo) for each in name_tensors({"general.architecture": architecture}, factorization, stored)
    ]


def test_names_are_those_on_the_disk_of_the_hub():
    assert named(
        "llama", "token_embd.weight", "blk.17.attn_q.weight", "blk.0.ffn_norm.weight", "blk.0.attn_v.bias"
    ) == [
        ("model.embed_tokens.weight", None),
        ("model.layers.17.self_attn.q_proj.weight", "rotated"),
        ("model.layers.0.post_attention_layernorm.weight", None),
        ("model.layers.0.self_attn.v_proj.bias", None),
    ]


def test_of_a_stack_of_experts_each_has_a_name():
    assert named(
        "qwen3moe", "blk.0.ffn_up_exps.weight", "blk.0.ffn_up_exps.weight[0]", "blk.0.ffn_up_exps.weight[31]"
    ) == [("model.layers.0.mlp.experts.0.up_proj.weight", None), ("model.layers.0.mlp.experts.31.up_proj.weight", None)]


def test_a_tensor_of_a_layer_without_a_name_keeps_its_own_under_the_prefix():
    assert named("llama", "blk.3.something.weight", "blk.3.more") == [
        ("model.layers.3.something.weight", None),
        ("model.layers.3.more", None),
    ]


def test_an_architecture_that_the_installed_package_does_not_know_says_what_to_do(monkeypatch):
    monkeypatch.setattr(gguf, "MODEL_ARCH_NAMES", {})
    with pytest.raises(NothingToCompare) as caught:
        named("llama", "blk.0.attn_q.weight")
    assert str(caught.value) == (
        "the installed package gguf does not know the architecture llama; `pip install --upgrade gguf`"
    )


@pytest.mark.parametrize(
    "content",
    [
        {"settings": {}},
        {"settings": {}, "architectures": {"llama": {"class": "A", "colour": "red"}}},
        {"settings": {}, "architectures": {"llama": {"class": "A", "undo": {"attn_q": "turned"}}}},
        [],
    ],
)
def test_a_table_that_breaks_the_schema_is_refused(content, tmp_path, monkeypatch):
    (tmp_path / "gguf").mkdir()
    (tmp_path / "gguf/architectures.yaml").write_text(json.dumps(content))
    monkeypatch.setattr("hf_lineage.architecture.registry.tables.registry_root", lambda: tmp_path)
    with pytest.raises(RegistryError, match=r"gguf/architectures.yaml: .*registry/README.md documents the schema"):
        _table()
