"""A verdict is about what transformers loads: each folder is loaded, and its logits stand beside the verdict."""

import datetime

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from hf_lineage import compare
from hf_lineage.checking.report import apply_policy
from hf_lineage.policy import parse
from hf_lineage.report import json as as_json
from tests import decoys
from tests.decoys import GENERAL, OTHER, Pair, loaded, made
from tests.models import edit_json

TOKENS = torch.arange(1, 9)[None]
LLAMA, GPT2, GRANITE, MIXTRAL = "LlamaForCausalLM", "GPT2LMHeadModel", "GraniteForCausalLM", "MixtralForCausalLM"


@pytest.fixture
def pair(tmp_path):
    return made(LLAMA, {}, tmp_path)


def logits(folder, auto=transformers.AutoModelForCausalLM):
    with torch.no_grad():
        return auto.from_pretrained(folder, local_files_only=True).eval()(TOKENS).logits


def whose(folder, pair):
    """Which of the two models computes what a folder computes."""
    outputs = logits(folder)
    return [name for name, own in (("A", pair.a), ("B", pair.b)) if torch.allclose(outputs, logits(own), atol=1e-3)]


def judged(pair, folder):
    (row,) = compare(str(pair.a), str(folder)).rows
    return row


def test_two_independent_models_are_told_apart(pair):
    assert (judged(pair, pair.b).verdict.code, judged(pair, pair.a).verdict.code) == ("unrelated", "inherited")


@pytest.mark.few(6)
@pytest.mark.parametrize("name", [LLAMA, GPT2])
@pytest.mark.parametrize(
    ("kind", "loads", "verdict", "reason"),
    [
        (
            "appended",
            ["B"],
            "unsupported",
            "config.json says 2 layers and the weights hold 4: transformers loads layers 0",
        ),
        ("foreign_prefix", ["B"], "unrelated", ""),
        ("one_letter_prefix", ["A"], "unused", "are not among those that the class saves, and the base has no equal"),
        ("named_file", ["B"], "ambiguous", "transformers loads other.safetensors, which config.json names"),
        ("named_file_alone", ["A"], "inherited", ""),
        ("file_and_shards", ["B"], "ambiguous", "transformers loads the file, other loaders follow the index;"),
        ("leftovers", ["A"], "unused", ""),
    ],
)
def test_a_decoy_decides_nothing(name, kind, loads, verdict, reason, tmp_path):
    pair = made(name, {}, tmp_path)
    folder = GENERAL[kind](pair)
    assert whose(folder, pair) == loads
    outcome = judged(pair, folder).verdict
    assert outcome.code == verdict
    assert reason in outcome.reason


def test_layers_under_two_prefixes_are_two_models(pair):
    folder = GENERAL["second_prefix"](pair)
    outcome = judged(pair, folder).verdict
    assert outcome.code == "ambiguous"
    assert outcome.reason.endswith(
        "layers stand under model.layers.{layer} and under layers.{layer}: loaders disagree on which of them are the "
        "model; remove the others"
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num_hidden_layers": 1}, "layers 0 to 0 and leaves the others out"),
        ({"num_hidden_layers": 3}, "with random numbers"),
        ({"num_hidden_layers": None}, "config.json says 32 layers and the weights hold 2"),
        ({"n_layer": 1}, "counts the layers twice, num_hidden_layers: 2 and n_layer: 1"),
    ],
)
def test_as_many_layers_count_as_config_json_says_or_its_type_and_twice_is_nothing_to_go_by(pair, settings, said):
    folder = pair.write(pair.tensors()[0])
    edit_json(folder / "config.json", **settings)
    depth = settings.get("num_hidden_layers", 2) or 32
    assert len(loaded(folder, transformers.LlamaForCausalLM).model.layers) == depth
    assert depth == 2 or whose(folder, pair) == []
    outcome = judged(pair, folder).verdict
    assert outcome.code == ("ambiguous" if "n_layer" in settings else "unsupported")
    assert said in outcome.reason


def test_layers_that_only_predict_further_tokens_are_left_out_and_said(tmp_path):
    pair = made("DeepseekV3ForCausalLM", {}, tmp_path)
    a, b = pair.tensors()
    after = {name.replace("layers.1.", "layers.2."): tensor for name, tensor in b.items() if "layers.1." in name}
    folder = pair.write({**a, **after}, num_nextn_predict_layers=1)
    assert decoys.whose(folder, pair, transformers.DeepseekV3ForCausalLM) == "A"
    row = judged(pair, folder)
    assert (row.verdict.code, row.layers) == ("inherited", 2)
    assert [note for note in row.notes if "only predict further tokens are left out" in note]


def test_the_type_decides_for_transformers_and_the_class_for_others(tmp_path):
    pair = made(LLAMA, {}, tmp_path / "llama")
    other = made(GPT2, {}, tmp_path / "gpt2")
    a, b = pair.tensors()[0], other.tensors()[1]
    a.pop("lm_head.weight")  # GPT-2 would load it in place of its tied embedding
    folder = pair.write({**a, **b}, **{k: v for k, v in other.config.items() if k != "architectures"})
    torch.testing.assert_close(logits(folder), logits(other.b))
    outcome = judged(pair, folder).verdict
    assert outcome.code == "unsupported"
    assert "config.json names the class LlamaForCausalLM, which is of model_type " in outcome.reason
    assert outcome.reason.endswith(
        "or llama, and says model_type gpt2: transformers uses the type, other loaders use the class; make the two "
        "agree"
    )


def test_a_type_whose_layers_are_read_alike_is_judged_and_said_and_a_missing_one_leaves_the_class(pair):
    row = judged(pair, pair.write(pair.tensors()[0], model_type="mistral"))
    assert row.verdict.code == "inherited"
    assert row.notes == (
        f"{pair.folder}: config.json says model_type mistral with the class LlamaForCausalLM; the layers of both are "
        "read the same way",
    )
    folder = pair.write(pair.tensors()[0], model_type=None)
    torch.testing.assert_close(logits(folder, transformers.LlamaForCausalLM), logits(pair.a))
    assert judged(pair, folder).verdict.code == "inherited"


def test_code_that_a_repository_brings_is_said(pair):
    folder = pair.write(pair.tensors()[0], auto_map={"AutoModelForCausalLM": "evil.Evil"})
    assert whose(folder, pair) == ["A"]
    row = judged(pair, folder)
    assert row.verdict.code == "inherited"
    assert "code of the repository for AutoModelForCausalLM (auto_map)" in row.verdict.reason
    assert row.own_code == (row.verdict.reason,)
    report = compare(str(pair.a), str(folder))
    assert as_json.document(report)["claims"][0]["reason"] == row.verdict.reason
    said = {form: report.to_format(form) for form in ("text", "markdown", "html", "sarif")}
    assert [form for form, text in said.items() if "auto" not in text] == []


ELSEWHERE = [
    {"auto_map": {"AutoModelForCausalLM": "evil.Evil"}},
    {"text_config": {"auto_map": {"AutoModel": "evil.Evil"}}},
    {"attn_implementation": "someone/their-attention"},
    {"_attn_implementation": {"": "sdpa", "text_config": "someone/their-attention@main:fast"}},
    {"experts_implementation": "someone/their-experts"},
    {},
]
"""Settings that name code; without any it is a file that a loader runs by its name."""


def test_transformers_takes_a_repository_for_the_code_of_attention():
    from transformers.integrations.hub_kernels import is_kernel

    config = transformers.LlamaConfig.from_dict(ELSEWHERE[2])
    assert is_kernel(config._attn_implementation)


@pytest.mark.few(4)
@pytest.mark.parametrize("named", ELSEWHERE)
@pytest.mark.parametrize(("kept", "unmet"), [("accept", 0), ("refuse", 1)])
def test_a_policy_may_refuse_code_that_a_repository_brings_or_names(pair, kept, unmet, named):
    folder = pair.write(pair.tensors()[0], **named)
    if not named:
        (folder / "custom_generate").mkdir()
        (folder / "custom_generate/generate.py").write_text("raise SystemExit")
    policy = parse(f"own-code: {kept}", "lineage.yaml")
    report = apply_policy(compare(str(pair.a), str(folder)), policy, datetime.date(2026, 1, 1))
    assert (len(report.rows[0].unmet), int(report.status)) == (unmet, 3 if unmet else 0)
    assert all("the policy refuses code of the repository, but " in one for one in report.rows[0].unmet)


@pytest.mark.parametrize(
    ("key", "value"), [("residual_multiplier", 0), ("embedding_multiplier", 0), ("rms_norm_eps", 1e9)]
)
def test_a_setting_that_takes_the_layers_out_leaves_nothing_to_judge(tmp_path, key, value):
    pair = made(GRANITE, {"attention_bias": False, "mlp_bias": False}, tmp_path)
    a, b = pair.tensors()
    layers = {name: tensor for name, tensor in a.items() if ".layers." in name}
    folder = pair.write({**b, **layers}, **{key: value})
    without = logits(folder)
    pair.write({**b, **{name: tensor * 2 for name, tensor in layers.items()}}, **{key: value})
    torch.testing.assert_close(logits(folder), without, atol=1e-2, rtol=1e-2)
    outcome = judged(pair, folder).verdict
    assert outcome.code == "unsupported"
    assert f"`{key}: {float(value)!r}`" in outcome.reason


def test_experts_under_the_names_of_memory_are_loaded_too(tmp_path):
    pair = made(MIXTRAL, {}, tmp_path)
    a, _ = pair.tensors()
    with torch.no_grad():
        state = loaded(pair.b, transformers.MixtralForCausalLM).state_dict()
    memory = {name: tensor for name, tensor in state.items() if ".experts." in name}
    outcome = judged(pair, pair.write({**a, **memory})).verdict
    assert (outcome.label, outcome.verified) == ("RELATED unused", False)
    assert "which of them a loader takes is not known" in outcome.reason


@pytest.mark.parametrize(
    "settings", [{}, {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128] * 2}}]
)
def test_scales_beside_plain_weights_verify_nothing(pair, settings):
    a, _ = pair.tensors()
    scales = {f"{name}_scale_inv": torch.rand(1, 1) for name in a if ".mlp." in name and name.endswith("weight")}
    outcome = judged(pair, pair.write({**a, **scales}, **settings)).verdict
    assert (outcome.code, outcome.verified) == ("unused", False)
    assert "6 stored tensors, such as model.layers.0.mlp.down_proj.weight_scale_inv, are not among" in outcome.reason


@pytest.mark.few(1)
@pytest.mark.parametrize("file", ["pytorch_model.bin", "consolidated.safetensors", "model.Q4_K_M.gguf", OTHER])
def test_weights_in_other_files_are_said(pair, file):
    folder = pair.write(pair.tensors()[0])
    save_file(pair.tensors()[1], folder / file)
    assert whose(folder, pair) == ["A"]
    row = judged(pair, folder)
    assert row.verdict.code == "inherited"
    assert row.notes == (
        f"{folder}: {file} may hold weights too and was not read: transformers loads model.safetensors, other loaders "
        "may choose otherwise",
    )


def test_another_configuration_that_this_one_hands_over_to_is_refused(pair):
    folder = pair.write(pair.tensors()[0], configuration_files=["config.4.0.0.json"])
    edit_json(folder / "config.4.0.0.json", **{**pair.config, "num_hidden_layers": 1})
    assert len(loaded(folder, transformers.LlamaForCausalLM).model.layers) == 1
    assert "refers to other files" in judged(pair, folder).verdict.reason


def test_parts_of_a_distributed_checkpoint_are_refused(pair):
    folder = pair.write(pair.tensors()[0])
    save_file(pair.tensors()[1], folder / "shard-00001-model-00001-of-00001.safetensors")
    assert "holds a distributed checkpoint (shard-00001" in judged(pair, folder).verdict.reason


def adapter(pair: Pair, rank: int, size: float, **settings):
    """Put an adapter of random factors beside A's weights."""
    import peft

    folder = pair.write(pair.tensors()[0])
    model = loaded(folder, transformers.LlamaForCausalLM)
    wanted = {"target_modules": ["gate_proj", "up_proj", "down_proj"], "lora_alpha": rank} | settings
    tuned = peft.get_peft_model(model, peft.LoraConfig(r=rank, **wanted))
    torch.manual_seed(5)
    for name, parameter in tuned.named_parameters():
        if "lora_" in name:
            parameter.data.normal_(std=size)
    tuned.save_pretrained(folder)
    return folder


def onto(pair: Pair):
    """A's weights, and beside them an adapter that makes B of them."""
    a, b = pair.tensors()
    folder = adapter(pair, 32, 0.0)
    factors = load_file(folder / "adapter_model.safetensors")
    for first in [name for name in factors if "lora_A" in name]:
        name = first.removeprefix("base_model.model.").replace("lora_A.", "")
        left, values, right = torch.linalg.svd(b[name] - a[name], full_matrices=False)
        factors[first] = (values.sqrt()[:, None] * right).contiguous()
        factors[first.replace("lora_A", "lora_B")] = (left * values.sqrt()).contiguous()
    save_file(factors, folder / "adapter_model.safetensors")
    return folder


def test_an_adapter_that_makes_another_model_of_the_weights_leaves_the_claim_open(pair):
    folder = onto(pair)
    merged = loaded(folder, transformers.AutoModelForCausalLM)
    with torch.no_grad():
        assert not torch.allclose(merged(TOKENS).logits, logits(pair.a), atol=1e-1)
    outcome = judged(pair, folder).verdict
    assert outcome.code == "ambiguous"
    assert outcome.reason == (
        f"{folder} holds an adapter beside its weights, which transformers applies where peft is installed: merge it "
        "into the weights, or remove it"
    )
