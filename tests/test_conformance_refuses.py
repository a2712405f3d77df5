"""The proof of `test_conformance.py` can fail: wrong entries of the registry, and what refuses each of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hf_lineage.architecture.layout import bind
from hf_lineage.errors import CheckpointError
from tests.conformance import rules
from tests.conformance.forms import WIDTH, variants
from tests.conformance.models import FUNCTION, by_modules, required, tiny_model
from tests.conformance.proving import deviations, names_said, names_unseen, pretend
from tests.conformance.tiny import TinyModel, build_tiny_model


def built(
    name: str, registered: str, folder: Path, settings: dict[str, int] | None = None, **changes: Any
) -> TinyModel:
    """A tiny model of a class beside an entry of the registry that is changed."""
    entry = pretend(registered, **changes)
    return build_tiny_model(name, folder, required(entry, name, variants(name)[0] | (settings or {})), entry)


def test_an_entry_that_does_not_fit_the_weights_is_refused(tmp_path):
    with pytest.raises(CheckpointError):
        built("GPTBigCodeForCausalLM", "gpt2", tmp_path, {"multi_query": False})


@pytest.mark.long
def test_one_expert_named_and_the_others_not_and_one_that_lacks_a_tensor_are_refused(tmp_path):
    named = {role: f"mlp.experts.0.{role}_proj" for role in ("up", "gate", "down")}
    assert built("FlexOlmoForCausalLM", "flex_olmo", tmp_path / "named", mlp=named).layout.unclaimed
    whole = built("FlexOlmoForCausalLM", "flex_olmo", tmp_path / "whole")
    lacking = dict(whole.shapes)
    del lacking["model.layers.0.mlp.experts.1.up_proj.weight"]
    with pytest.raises(CheckpointError):
        bind(pretend("flex_olmo"), lacking, whole.model.config.to_dict())


LLAMA, BEIT, RESNET = ("LlamaForCausalLM", "llama"), ("BeitModel", "vit"), ("ResNetModel", "resnet_bottleneck")
GPT2, DEEPSEEK = ("GPT2LMHeadModel", "gpt2"), ("DeepseekV3ForCausalLM", "deepseek")
LAST = {"up": "layer.0.convolution", "latent": {}, "inner_norm": "layer.0.normalization"}
QKV, EXPERTS = ("query", "key", "value"), {"mlp.experts.gate_up_proj": ("gate", "up")}


def by_head(**packed: Any) -> dict[str, Any]:
    """Heads that a file says to be packed by turns, said to follow one another."""
    return {
        "attention": {"interleaved": {}, "packed": {name.replace("__", "."): roles for name, roles in packed.items()}}
    }


DEVIATING = {
    "value for key": (*LLAMA, {"attention": {"key": "self_attn.v_proj", "value": "self_attn.k_proj"}}),
    "gate and up exchanged": (*LLAMA, {"mlp": {"up": "mlp.gate_proj", "gate": "mlp.up_proj"}}),
    "query and value exchanged": (*GPT2, {"attention": {"packed": {"attn.c_attn": ("value", "key", "query")}}}),
    "the other branch's norm": (*LLAMA, {"mlp": {"norm": "input_layernorm"}}),
    "a gain said to be stored less one": (*LLAMA, {"gain": "one_plus"}),
    "two gains on outputs exchanged":
        (*BEIT, {"mlp": {"output_norm": "lambda_1"}, "attention": {"output_norm": "lambda_2"}}),
    "queries, keys and values by head": ("DebertaModel", "deberta", by_head(attention__self__in_proj=QKV)),
    "a gain stored less one said to be plain": ("GemmaForCausalLM", "gemma", {"gain": "plain"}),
    "an output norm said to be an input norm":
        ("Olmo2ForCausalLM", "olmo2", {"mlp": {"norm": "post_feedforward_layernorm", "output_norm": ()}}),
    "a norm inside the branch": ("BitNetForCausalLM", "llama", {}),
    "one of two norms inside left out": ("BitNetForCausalLM", "bitnet", {"mlp": {"inner_norm": ()}}),
    "keys and values from a latent exchanged":
        (*DEEPSEEK, {"attention": {"interleaved": {"self_attn.kv_b_proj": ("value", "key")}}}),
    "keys and values from a latent": (*DEEPSEEK, by_head(self_attn__kv_b_proj=("key", "value"))),
    "heads packed by turns": ("GPTNeoXForCausalLM", "gpt_neox", by_head(attention__query_key_value=QKV)),
    "blocks of heads said to be one": ("CodeGenForCausalLM", "codegen", {"attention": {"blocks": 1}}),
    "gate and up by turns": ("GptOssForCausalLM", "gpt_oss", {"mlp": {"interleaved": {}, "packed": EXPERTS}}),
    "a gate on attention left out": ("BeamForCausalLM", "beam", {"attention": {"gate": None}}),
    "the first and the last of three convolutions": (*RESNET, {"mlp": LAST}),
    "a batch norm between two convolutions left out": ("ResNetModel", "resnet_basic", {"mlp": {"inner_norm": ()}}),
    "two attentions, one subtracted from the other": ("DiffLlamaForCausalLM", "llama", {}),
    "attention with a norm on its values": ("Gemma4ForCausalLM", "gemma2", {"gain": "plain"}),
    "the norm of a recurrence": ("RwkvForCausalLM", "rwkv", {"mlp": {"norm": "ln1"}}),
    "attention with a gate on its output": ("BeamForCausalLM", "gemma2", {"gain": "plain"}),
}  # fmt: skip


@pytest.mark.parametrize(("name", "registered", "changes"), DEVIATING.values(), ids=DEVIATING.keys())
@pytest.mark.few(6)
def test_a_factorization_that_is_not_the_module_deviates(name, registered, changes, tmp_path):
    assert deviations(built(name, registered, tmp_path, **changes))


MISREAD = {
    "one tap": lambda name, stored: stored[..., 1, 1] if stored.ndim == 4 and stored.shape[-1] > 1 else stored,
    "a gain without the running variance": lambda name, stored: stored**0 if name.endswith("running_var") else stored,
}


@pytest.mark.parametrize("misread", MISREAD.values(), ids=MISREAD.keys())
@pytest.mark.parametrize("registered", ["resnet_basic", "resnet_bottleneck"])
def test_a_convolution_read_otherwise_deviates(registered, misread, tmp_path):
    stored = built("ResNetModel", registered, tmp_path)
    assert deviations(replace(stored, read=lambda name: misread(name, stored.read(name))))


LAYERS, NORMS, GAINS, KIND = (
    rules.layers_left_out,
    rules.norms_left_out,
    rules.gains_left_out,
    rules.wrong_normalization,
)
CLIP, STAGES_NORM = {"text": "text_model.encoder.layers.{layer}"}, "encoder.stages.0.layers.0.layer.2.normalization"
GROUPS, OUTPUT = "encoder.albert_layer_groups.", rules.output_norms_mistaken
NOTICED = {
    "the encoder beside its decoder":
        ("T5Model", "t5", {"layers": {"decoder": "decoder.block.{layer}"}}, LAYERS, "encoder.block.0"),
    "one of two towers": ("CLIPModel", "clip_towers", {"layers": CLIP}, LAYERS, "vision_model.encoder.layers.0"),
    "every stage but the first":
        (*RESNET, {"layers": "encoder.stages.0.layers.{layer}"}, LAYERS, "encoder.stages.1.layers.0"),
    "all layers of a group but the first": (
        "AlbertModel", "albert", {"layers": f"{GROUPS}{{layer}}.albert_layers.0"}, LAYERS, f"{GROUPS}0.albert_layers.1",
    ),
    "a norm left out":
        (*LLAMA, {"mlp": {"norm": ()}}, NORMS, [f"model.layers.{n}.post_attention_layernorm" for n in (0, 1)]),
    "an output norm left out":
        ("Gemma2ForCausalLM", "gemma2", {"attention": {"output_norm": ()}}, OUTPUT, ["value_output"]),
    "a gain on the output left out":
        (*BEIT, {"mlp": {"output_norm": ()}}, GAINS, [f"encoder.layer.{n}.lambda_2" for n in (0, 1)]),
    "an output batch norm left out": (*RESNET, {"mlp": {"output_norm": ()}}, GAINS, f"{STAGES_NORM}.weight"),
    "the wrong kind of norm": (*LLAMA, {"normalization": "layer_norm"}, KIND, "model.layers.0.input_layernorm"),
    **{
        f"a batch norm said to be {kind}": (*RESNET, {"normalization": kind}, KIND, STAGES_NORM)
        for kind in ("rms_norm", "layer_norm")
    },
}  # fmt: skip


@pytest.mark.parametrize(("name", "registered", "changes", "rule", "named"), NOTICED.values(), ids=NOTICED.keys())
def test_what_an_entry_leaves_out_or_mistakes_is_noticed_by_its_rule(name, registered, changes, rule, named, tmp_path):
    found = rule(built(name, registered, tmp_path, **changes))
    assert named == found if isinstance(named, list) else named in found
    assert rule in rules.RULES


def test_reader_and_writer_exchanged_where_both_have_one_shape_are_noticed(tmp_path):
    """By what they compute, and by the tensor-parallel plan."""
    square, exchanged = {"intermediate_size": 32}, {"up": "mlp.down_proj", "down": "mlp.up_proj"}
    assert deviations(built("LlamaForCausalLM", "llama", tmp_path / "exchanged", square, mlp=exchanged))
    right = built("LlamaForCausalLM", "llama", tmp_path / "right", square)
    first = right.layout.sets("mlp")[0][0]
    object.__setattr__(first, "slots", {"up": first.slots["down"], "down": first.slots["up"]})
    assert rules.against_plan(right) == ["model.layers.0.mlp.down_proj.weight", "model.layers.0.mlp.up_proj.weight"]


PLANTED = {"ignores": ("mlp.router",), "mlp": {"norm": ("planted", "post_attention_layernorm")}}


@pytest.mark.parametrize(("said", "unseen"), [({}, set()), (PLANTED, {"planted", "mlp.router"})])
def test_names_that_the_class_never_writes_are_told_and_no_others(said, unseen, tmp_path):
    entry = pretend("llama", layers="model.layers.{layer}", **said)
    assert names_unseen(names_said(entry), build_tiny_model("LlamaForCausalLM", tmp_path, {}, entry)) == unseen


def test_what_is_called_by_modules_is_what_one_function_computes():
    model = tiny_model("WavLMModel", {})
    module = next(one for one in model.modules() if hasattr(one, FUNCTION))
    states, mask = torch.randn(2, 5, WIDTH), torch.tensor([[1] * 5, [1, 1, 1, 0, 0]])
    with torch.no_grad():
        as_one, _, _ = module(states, mask)
        by_modules(model)
        apart, _, _ = module(states, mask)
    torch.testing.assert_close(apart, as_one)
    assert as_one.abs().max() > 0.01
