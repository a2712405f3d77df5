"""The proof behind the registry: for every class every product is what the real transformers module computes."""

import collections
import fnmatch
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from hf_lineage.header import find_layers
from hf_lineage.registry import Factorization, MatrixSet, Sets, as_names, as_sets, factorizations, prefixes, slots
from tests.conformance import (
    FOLDED,
    PLAIN,
    Specimen,
    against_plan,
    differences,
    gains_left_out,
    norms_left_out,
    output_norms_mistaken,
    required,
    specimen,
    variants,
    wrong_normalization,
)

ROUNDING = 1e-4
NUMBER = re.compile(r"\.\d+(?=\.|$)")


def cases() -> Iterator[Any]:
    for factorization in factorizations():
        for name in factorization.classes:
            for number, wanted in enumerate(variants(name)):
                label = f"{factorization.name}-{name}" + (f"-{number}" if number else "")
                yield pytest.param(name, factorization, required(factorization, name, wanted), id=label)


def deviations(found: Specimen) -> dict[str, float]:
    """Path and recipe -> how far the worst product is from what the module computes, where that is not rounding."""
    everything = {
        f"{path} {'folded' if recipe.gains else 'plain'}": list(differences(found, path, recipe))
        for path in found.layout.paths
        for recipe in (PLAIN, FOLDED)
    }
    return {label: max(seen) for label, seen in everything.items() if not all(each < ROUNDING for each in seen)}


@pytest.mark.parametrize(("name", "factorization", "wanted"), list(cases()))
def test_every_product_is_what_the_module_computes(name, factorization, wanted, tmp_path):
    found = specimen(name, tmp_path, wanted)
    assert found.layout.factorization == factorization
    layers = collections.Counter(layer.stack for layer in find_layers(factorization, found.shapes))
    assert set(layers.values()) <= {2, 4}
    assert found.layout.unclaimed == ()
    assert deviations(found) == {}
    assert norms_left_out(found) == []
    assert gains_left_out(found) == []
    assert output_norms_mistaken(found) == []
    assert wrong_normalization(found) == []
    assert against_plan(found) == []


def names_said(factorization: Factorization) -> set[str]:
    """Every name that a registry file says, prefixes with their trailing dot."""
    said = {f"{prefix}." for prefix in prefixes(factorization)} | set(factorization.ignores)
    for kind in (factorization.branches.mlp, factorization.branches.attention):
        for each in as_sets(kind):
            norms = (as_names(norm) for norm in (each.norm, each.output_norm, each.inner_norm))
            said |= {name for slot in slots(each) for name in (slot.tensor, *slot.latent)}
            said |= {name for names in norms for name in names if name}
    return said


@pytest.mark.parametrize("factorization", factorizations(), ids=lambda found: found.name)
def test_every_name_that_a_file_says_is_on_the_disk_of_a_class_it_lists(factorization, tmp_path):
    unseen = names_said(factorization)
    witnesses = [(name, wanted) for name in factorization.classes for wanted in variants(name)]
    while unseen and witnesses:
        name, wanted = witnesses.pop()
        found = specimen(name, tmp_path / str(len(witnesses)), required(factorization, name, wanted))
        stored = {NUMBER.sub(".0", f".{tensor}").removesuffix(".weight") for tensor in found.shapes}
        for said in set(unseen):
            shown = NUMBER.sub(".0", said.replace("{layer}", "0").replace("{stage}", "0").replace("{expert}", "0"))
            shown = f".{shown}*" if said.endswith(".") else f"*.{shown}"
            if any(fnmatch.fnmatchcase(tensor, shown) for tensor in stored):
                unseen.discard(said)
    assert unseen == set()


def edit(sets: Sets, said: dict[str, Any]) -> Sets:
    """Every set of a branch, said differently."""
    if isinstance(sets, MatrixSet):
        return msgspec.structs.replace(sets, **said)
    return tuple(each and msgspec.structs.replace(each, **said) for each in sets)


def pretend(name: str, **changes: Any) -> Factorization:
    """A factorization with its branches, or anything else about it, said differently."""
    found = next(found for found in factorizations() if found.name == name)
    branches = {kind: changes.pop(kind) for kind in ("mlp", "attention") if kind in changes}
    edited = {kind: edit(getattr(found.branches, kind), said) for kind, said in branches.items()}
    return msgspec.structs.replace(found, branches=msgspec.structs.replace(found.branches, **edited), **changes)


NEOX = "attention.query_key_value"
LIES = {
    "gate and up exchanged": ("LlamaForCausalLM", "llama", {"mlp": {"up": "mlp.gate_proj", "gate": "mlp.up_proj"}}),
    "query and value exchanged": (
        "GPT2LMHeadModel",
        "gpt2",
        {"attention": {"packed": {"attn.c_attn": ("value", "key", "query")}}},
    ),
    "heads packed by turns said to follow one another": (
        "GPTNeoXForCausalLM",
        "gpt_neox",
        {"attention": {"interleaved": {}, "packed": {NEOX: ("query", "key", "value")}}},
    ),
    "the other branch's norm": ("LlamaForCausalLM", "llama", {"mlp": {"norm": "input_layernorm"}}),
    "a gain said to be stored less one": ("LlamaForCausalLM", "llama", {"gain": "one_plus"}),
    "two gains on outputs exchanged": (
        "BeitModel",
        "vit",
        {"mlp": {"output_norm": "lambda_1"}, "attention": {"output_norm": "lambda_2"}},
    ),
    "queries, keys and values by head said to follow one another": (
        "DebertaModel",
        "deberta",
        {"attention": {"interleaved": {}, "packed": {"attention.self.in_proj": ("query", "key", "value")}}},
    ),
    "a gain stored less one said to be plain": ("GemmaForCausalLM", "gemma", {"gain": "plain"}),
    "an output norm said to be an input norm": (
        "Olmo2ForCausalLM",
        "olmo2",
        {"mlp": {"norm": "post_feedforward_layernorm", "output_norm": ()}},
    ),
    "a norm inside the branch": ("BitNetForCausalLM", "llama", {}),
    "one of two norms inside left out": ("BitNetForCausalLM", "bitnet", {"mlp": {"inner_norm": ()}}),
    "keys and values from a latent exchanged": (
        "DeepseekV3ForCausalLM",
        "deepseek",
        {"attention": {"interleaved": {"self_attn.kv_b_proj": ("value", "key")}}},
    ),
    "keys and values from a latent said to follow one another": (
        "DeepseekV3ForCausalLM",
        "deepseek",
        {"attention": {"interleaved": {}, "packed": {"self_attn.kv_b_proj": ("key", "value")}}},
    ),
    "blocks of heads said to be one": ("CodeGenForCausalLM", "codegen", {"attention": {"blocks": 1}}),
    "gate and up by turns said to follow one another": (
        "GptOssForCausalLM",
        "gpt_oss",
        {"mlp": {"interleaved": {}, "packed": {"mlp.experts.gate_up_proj": ("gate", "up")}}},
    ),
    "a gate on attention left out": ("BeamForCausalLM", "beam", {"attention": {"gate": None}}),
    "the first and the last of three convolutions": (
        "ResNetModel",
        "resnet_bottleneck",
        {"mlp": {"up": "layer.0.convolution", "latent": {}, "inner_norm": "layer.0.normalization"}},
    ),
    "a batch norm between two convolutions left out": ("ResNetModel", "resnet_basic", {"mlp": {"inner_norm": ()}}),
    "two attentions, one subtracted from the other": ("DiffLlamaForCausalLM", "llama", {}),
    "attention with a gate on its output": ("BeamForCausalLM", "gemma2", {"gain": "plain"}),
}


@pytest.mark.parametrize(("name", "registered", "changes"), LIES.values(), ids=LIES.keys())
def test_a_factorization_that_is_not_the_module_is_refuted(name, registered, changes, tmp_path):
    said = pretend(registered, **changes)
    assert deviations(specimen(name, tmp_path, required(said, name, variants(name)[0]), said))


CONVOLUTION, BATCH_NORM = 4, "running_var"
MISREAD = {
    "one tap": lambda name, stored: (
        stored[..., 1, 1] if stored.ndim == CONVOLUTION and stored.shape[-1] > 1 else stored
    ),
    "a gain without the running variance": lambda name, stored: stored**0 if name.endswith(BATCH_NORM) else stored,
}


@pytest.mark.parametrize("misread", MISREAD.values(), ids=MISREAD.keys())
@pytest.mark.parametrize("registered", ["resnet_basic", "resnet_bottleneck"])
def test_a_convolution_read_otherwise_is_refuted(registered, misread, tmp_path):
    factorization = pretend(registered)
    wanted = required(factorization, "ResNetModel", variants("ResNetModel")[0])
    found = specimen("ResNetModel", tmp_path, wanted, factorization)
    assert deviations(replace(found, read=lambda name: misread(name, found.read(name))))


def test_an_output_batch_norm_left_out_is_noticed(tmp_path):
    said = pretend("resnet_bottleneck", mlp={"output_norm": ()})
    left_out = gains_left_out(specimen("ResNetModel", tmp_path, variants("ResNetModel")[0], said))
    assert "encoder.stages.0.layers.0.layer.2.normalization.weight" in left_out


def test_a_norm_left_out_is_noticed(tmp_path):
    said = pretend("llama", mlp={"norm": ()})
    assert norms_left_out(specimen("LlamaForCausalLM", tmp_path, {}, said)) == [
        "model.layers.0.post_attention_layernorm",
        "model.layers.1.post_attention_layernorm",
    ]


def test_an_output_norm_left_out_is_noticed(tmp_path):
    said = pretend("gemma2", attention={"output_norm": ()})
    assert output_norms_mistaken(specimen("Gemma2ForCausalLM", tmp_path, {}, said)) == ["value_output"]


def test_a_gain_on_the_output_left_out_is_noticed(tmp_path):
    said = pretend("vit", mlp={"output_norm": ()})
    assert gains_left_out(specimen("BeitModel", tmp_path, {}, said)) == [
        "encoder.layer.0.lambda_2",
        "encoder.layer.1.lambda_2",
    ]


def test_the_wrong_kind_of_norm_is_noticed(tmp_path):
    said = pretend("llama", normalization="layer_norm")
    assert "model.layers.0.input_layernorm" in wrong_normalization(specimen("LlamaForCausalLM", tmp_path, {}, said))


@pytest.mark.parametrize("said", ["rms_norm", "layer_norm"])
def test_a_batch_norm_is_told_from_other_norms(said, tmp_path):
    found = specimen(
        "ResNetModel", tmp_path, variants("ResNetModel")[0], pretend("resnet_bottleneck", normalization=said)
    )
    assert "encoder.stages.0.layers.0.layer.2.normalization" in wrong_normalization(found)


def test_reader_and_writer_exchanged_are_noticed_by_the_tensor_parallel_plan(tmp_path):
    found = specimen("LlamaForCausalLM", tmp_path, {"intermediate_size": 32})
    first = found.layout.mlp[0][0]
    exchanged = {"up": first.slots["down"], "down": first.slots["up"]}
    object.__setattr__(first, "slots", exchanged)
    assert against_plan(found) == ["model.layers.0.mlp.down_proj.weight", "model.layers.0.mlp.up_proj.weight"]
