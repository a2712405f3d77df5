"""The proof of `test_conformance.py` can fail: wrong entries of the registry, and what refuses each of them."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hf_lineage.architecture.layout import bind
from hf_lineage.errors import CheckpointError
from tests.conformance.forms import variants
from tests.conformance.models import required
from tests.conformance.proving import deviations, faults, pretend
from tests.conformance.rules import (
    against_plan,
    gains_left_out,
    layers_left_out,
    norms_left_out,
    output_norms_mistaken,
    wrong_normalization,
)
from tests.conformance.tiny import build_tiny_model


@dataclass(frozen=True)
class Wrong:
    """A class, what is changed in its entry, and what notices that."""

    name: str
    registered: str
    by: str
    changes: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    missing: str = ""
    """A tensor that the weights lack."""


NEVER_PASS = {
    "GPT-2's names for GPTBigCode": Wrong(
        "GPTBigCodeForCausalLM", "gpt2", by="binding", settings={"multi_query": False},
    ),
    "up and down exchanged where both have one shape": Wrong(
        "LlamaForCausalLM", "llama", by="deviations", changes={"mlp": {"up": "mlp.down_proj", "down": "mlp.up_proj"}},
        settings={"intermediate_size": 32},
    ),
    "value for key": Wrong(
        "LlamaForCausalLM", "llama", by="deviations",
        changes={"attention": {"key": "self_attn.v_proj", "value": "self_attn.k_proj"}},
    ),
    "heads packed by turns said to follow one another": Wrong(
        "GPTNeoXForCausalLM", "gpt_neox", by="deviations",
        changes={"attention": {"interleaved": {}, "packed": {"attention.query_key_value": ("query", "key", "value")}}},
    ),
    "an expert of which the weights lack a tensor": Wrong(
        "FlexOlmoForCausalLM", "flex_olmo", by="binding", missing="model.layers.0.mlp.experts.1.up_proj.weight",
    ),
    "one expert named and the others not": Wrong(
        "FlexOlmoForCausalLM", "flex_olmo", by="unclaimed",
        changes={"mlp": {role: f"mlp.experts.0.{role}_proj" for role in ("up", "gate", "down")}},
    ),
    "a gain not folded": Wrong("LlamaForCausalLM", "llama", by="norms_left_out", changes={"mlp": {"norm": ()}}),
}  # fmt: skip


def refused(wrong: Wrong, folder: Path) -> set[str]:
    """What refuses an entry: binding it to the weights, or faults that the proof finds."""
    entry = pretend(wrong.registered, **wrong.changes)
    try:
        built = build_tiny_model(
            wrong.name, folder, required(entry, wrong.name, variants(wrong.name)[0] | wrong.settings), entry
        )
        there = {name: shape for name, shape in built.shapes.items() if name != wrong.missing}
        bind(entry, there, built.model.config.to_dict())
    except CheckpointError:
        return {"binding"}
    return set(faults(built))


@pytest.mark.parametrize("wrong", NEVER_PASS.values(), ids=NEVER_PASS.keys())
@pytest.mark.few(3)
def test_a_wrong_entry_that_must_never_pass_is_refused(wrong, tmp_path):
    assert wrong.by in refused(wrong, tmp_path)


DEVIATING = {
    "gate and up exchanged": ("LlamaForCausalLM", "llama", {"mlp": {"up": "mlp.gate_proj", "gate": "mlp.up_proj"}}),
    "query and value exchanged":
        ("GPT2LMHeadModel", "gpt2", {"attention": {"packed": {"attn.c_attn": ("value", "key", "query")}}}),
    "the other branch's norm": ("LlamaForCausalLM", "llama", {"mlp": {"norm": "input_layernorm"}}),
    "a gain said to be stored less one": ("LlamaForCausalLM", "llama", {"gain": "one_plus"}),
    "two gains on outputs exchanged":
        ("BeitModel", "vit", {"mlp": {"output_norm": "lambda_1"}, "attention": {"output_norm": "lambda_2"}}),
    "queries, keys and values by head said to follow one another": (
        "DebertaModel", "deberta",
        {"attention": {"interleaved": {}, "packed": {"attention.self.in_proj": ("query", "key", "value")}}},
    ),
    "a gain stored less one said to be plain": ("GemmaForCausalLM", "gemma", {"gain": "plain"}),
    "an output norm said to be an input norm":
        ("Olmo2ForCausalLM", "olmo2", {"mlp": {"norm": "post_feedforward_layernorm", "output_norm": ()}}),
    "a norm inside the branch": ("BitNetForCausalLM", "llama", {}),
    "one of two norms inside left out": ("BitNetForCausalLM", "bitnet", {"mlp": {"inner_norm": ()}}),
    "keys and values from a latent exchanged": (
        "DeepseekV3ForCausalLM", "deepseek", {"attention": {"interleaved": {"self_attn.kv_b_proj": ("value", "key")}}},
    ),
    "keys and values from a latent said to follow one another": (
        "DeepseekV3ForCausalLM", "deepseek",
        {"attention": {"interleaved": {}, "packed": {"self_attn.kv_b_proj": ("key", "value")}}},
    ),
    "blocks of heads said to be one": ("CodeGenForCausalLM", "codegen", {"attention": {"blocks": 1}}),
    "gate and up by turns said to follow one another": (
        "GptOssForCausalLM", "gpt_oss",
        {"mlp": {"interleaved": {}, "packed": {"mlp.experts.gate_up_proj": ("gate", "up")}}},
    ),
    "a gate on attention left out": ("BeamForCausalLM", "beam", {"attention": {"gate": None}}),
    "the first and the last of three convolutions": (
        "ResNetModel", "resnet_bottleneck",
        {"mlp": {"up": "layer.0.convolution", "latent": {}, "inner_norm": "layer.0.normalization"}},
    ),
    "a batch norm between two convolutions left out": ("ResNetModel", "resnet_basic", {"mlp": {"inner_norm": ()}}),
    "two attentions, one subtracted from the other": ("DiffLlamaForCausalLM", "llama", {}),
    "attention with a norm on its values": ("Gemma4ForCausalLM", "gemma2", {"gain": "plain"}),
    "the norm of a recurrence": ("RwkvForCausalLM", "rwkv", {"mlp": {"norm": "ln1"}}),
    "attention with a gate on its output": ("BeamForCausalLM", "gemma2", {"gain": "plain"}),
}  # fmt: skip


@pytest.mark.parametrize(("name", "registered", "changes"), DEVIATING.values(), ids=DEVIATING.keys())
@pytest.mark.few(5)
def test_a_factorization_that_is_not_the_module_deviates(name, registered, changes, tmp_path):
    entry = pretend(registered, **changes)
    assert deviations(build_tiny_model(name, tmp_path, required(entry, name, variants(name)[0]), entry))


CONVOLUTION, BATCH_NORM = 4, "running_var"
MISREAD = {
    "one tap": lambda name, stored: (
        stored[..., 1, 1] if stored.ndim == CONVOLUTION and stored.shape[-1] > 1 else stored
    ),
    "a gain without the running variance": lambda name, stored: stored**0 if name.endswith(BATCH_NORM) else stored,
}


@pytest.mark.parametrize("misread", MISREAD.values(), ids=MISREAD.keys())
@pytest.mark.parametrize("registered", ["resnet_basic", "resnet_bottleneck"])
def test_a_convolution_read_otherwise_deviates(registered, misread, tmp_path):
    factorization = pretend(registered)
    wanted = required(factorization, "ResNetModel", variants("ResNetModel")[0])
    built = build_tiny_model("ResNetModel", tmp_path, wanted, factorization)
    assert deviations(replace(built, read=lambda name: misread(name, built.read(name))))


STAGES_NORM = "encoder.stages.0.layers.0.layer.2.normalization"
NOTICED = {
    "the encoder beside its decoder":
        ("T5Model", "t5", {"layers": {"decoder": "decoder.block.{layer}"}}, layers_left_out, "encoder.block.0"),
    "one of two towers": (
        "CLIPModel", "clip_towers", {"layers": {"text": "text_model.encoder.layers.{layer}"}}, layers_left_out,
        "vision_model.encoder.layers.0",
    ),
    "every stage but the first": (
        "ResNetModel", "resnet_bottleneck", {"layers": "encoder.stages.0.layers.{layer}"}, layers_left_out,
        "encoder.stages.1.layers.0",
    ),
    "all layers of a group but the first": (
        "AlbertModel", "albert", {"layers": "encoder.albert_layer_groups.{layer}.albert_layers.0"}, layers_left_out,
        "encoder.albert_layer_groups.0.albert_layers.1",
    ),
    "a norm left out": (
        "LlamaForCausalLM", "llama", {"mlp": {"norm": ()}}, norms_left_out,
        ["model.layers.0.post_attention_layernorm", "model.layers.1.post_attention_layernorm"],
    ),
    "an output norm left out": (
        "Gemma2ForCausalLM", "gemma2", {"attention": {"output_norm": ()}}, output_norms_mistaken, ["value_output"],
    ),
    "a gain on the output left out": (
        "BeitModel", "vit", {"mlp": {"output_norm": ()}}, gains_left_out,
        ["encoder.layer.0.lambda_2", "encoder.layer.1.lambda_2"],
    ),
    "an output batch norm left out":
        ("ResNetModel", "resnet_bottleneck", {"mlp": {"output_norm": ()}}, gains_left_out, f"{STAGES_NORM}.weight"),
    "the wrong kind of norm": (
        "LlamaForCausalLM", "llama", {"normalization": "layer_norm"}, wrong_normalization,
        "model.layers.0.input_layernorm",
    ),
    **{
        f"a batch norm said to be {kind}":
            ("ResNetModel", "resnet_bottleneck", {"normalization": kind}, wrong_normalization, STAGES_NORM)
        for kind in ("rms_norm", "layer_norm")
    },
}  # fmt: skip


@pytest.mark.parametrize(("name", "registered", "changes", "rule", "named"), NOTICED.values(), ids=NOTICED.keys())
def test_what_an_entry_leaves_out_or_mistakes_is_noticed_by_its_rule(name, registered, changes, rule, named, tmp_path):
    """The one that is named, or all of a list."""
    entry = pretend(registered, **changes)
    found = rule(build_tiny_model(name, tmp_path, required(entry, name, variants(name)[0]), entry))
    assert named == found if isinstance(named, list) else named in found


def test_reader_and_writer_exchanged_are_noticed_by_the_tensor_parallel_plan(tmp_path):
    built = build_tiny_model("LlamaForCausalLM", tmp_path, {"intermediate_size": 32})
    first = built.layout.sets("mlp")[0][0]
    exchanged = {"up": first.slots["down"], "down": first.slots["up"]}
    object.__setattr__(first, "slots", exchanged)
    assert against_plan(built) == ["model.layers.0.mlp.down_proj.weight", "model.layers.0.mlp.up_proj.weight"]
