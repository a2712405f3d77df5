"""Adapters of peft that are no LoRA, read by their headers."""

from functools import partial

import pytest
import torch
from peft import IA3Config, PrefixTuningConfig, PromptTuningConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from hf_lineage import compare
from hf_lineage.checkpoint.lora.vectors import open_vectors
from hf_lineage.hub.reference import RepoRef
from tests.adapters import pair, written
from tests.models import tiny_llama

SHAPE = {"num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 50}
PROMPTS = {"num_virtual_tokens": 5, "task_type": "CAUSAL_LM"}
KINDS = {
    "IA3": partial(IA3Config, target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"]),
    "PROMPT_TUNING": partial(PromptTuningConfig, **PROMPTS),
    "PREFIX_TUNING": partial(PrefixTuningConfig, **PROMPTS),
}


def saved(folder, kind, width=32, hidden=48, layers=2):
    model = LlamaForCausalLM(
        LlamaConfig(**SHAPE | {"num_hidden_layers": layers}, hidden_size=width, intermediate_size=hidden)
    )
    get_peft_model(model, KINDS[kind]()).save_pretrained(folder)
    return folder


def test_vectors_and_prompts_of_peft_are_read(tmp_path):
    vectors = open_vectors(RepoRef("org/x", saved(tmp_path / "a", "IA3")))
    assert vectors.lengths == {
        f"model.layers.{layer}.{module}": length
        for layer in range(2)
        for module, length in (("mlp.down_proj", 48), ("self_attn.k_proj", 32), ("self_attn.v_proj", 32))
    }
    assert open_vectors(RepoRef("org/x", saved(tmp_path / "b", "PROMPT_TUNING"))).prompt == (5, 32)
    assert open_vectors(RepoRef("org/x", saved(tmp_path / "c", "PREFIX_TUNING"))).prompt == (5, 2 * 2 * 32)


def test_a_lora_and_a_kind_that_nobody_knows_are_none_of_these(tmp_path):
    lora = written(tmp_path / "lora", pair("model.layers.0.mlp.up_proj", 48, 32))
    assert open_vectors(RepoRef("org/x", lora)) is None
    assert open_vectors(RepoRef("org/x", written(tmp_path / "x", {"w": torch.ones(1)}, peft_type=["IA3"]))) is None


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_fits_a_base_is_unverifiable_with_the_reason(tmp_path, kind):
    (row,) = compare(str(tiny_llama(tmp_path / "base")), str(saved(tmp_path / "x", kind))).rows
    assert row.verdict.name == "UNVERIFIABLE"
    assert f"of the kind {kind}" in row.verdict.reason


@pytest.mark.parametrize(
    ("kind", "other", "reason"),
    [
        ("IA3", {"hidden": 64}, "model.layers.0.mlp.down_proj is scaled by 64 numbers and is 32 x 48"),
        ("PROMPT_TUNING", {"width": 64}, "tokens of 64 numbers do not fit a stream of width 32"),
        ("PREFIX_TUNING", {"width": 48, "layers": 1}, "a prefix of 96 numbers does not fit the keys and values of 5"),
    ],
)
def test_one_whose_shapes_do_not_fit_is_unrelated_by_shape(tmp_path, kind, other, reason):
    base = tiny_llama(tmp_path / "base", layers=5 if kind == "PREFIX_TUNING" else 2)
    (row,) = compare(str(base), str(saved(tmp_path / "x", kind, **other))).rows
    assert row.verdict.name == "UNRELATED"
    assert reason in row.verdict.reason


def test_a_file_without_any_of_their_tensors_is_unverifiable(tmp_path):
    folder = written(tmp_path / "x", {"prompt_embeddings": torch.ones(()), "y": torch.ones(2)}, peft_type="IA3")
    (row,) = compare(str(tiny_llama(tmp_path / "base")), str(folder)).rows
    assert row.verdict.name == "UNVERIFIABLE"
