"""A verdict is about what transformers loads and uses: each folder is loaded, its logits stand beside the verdict."""

import datetime

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file

from hf_lineage import compare
from hf_lineage.checking.report import apply_policy
from hf_lineage.policy import parse
from hf_lineage.report import json as as_json
from tests import adapters, decoys
from tests.checking.conftest import compared
from tests.conformance.forms import variants
from tests.decoys import GENERAL, OTHER, loaded, made
from tests.models import edit_json

LLAMA, GPT2, GRANITE, MIXTRAL = "LlamaForCausalLM", "GPT2LMHeadModel", "GraniteForCausalLM", "MixtralForCausalLM"
QWEN, KOLIBRI, APERTUS, GEMMA = "Qwen3MoeForCausalLM", "Kolibri1ForCausalLM", "ApertusForCausalLM", "Gemma4ForCausalLM"
DEEPSEEK, DEEPSEEK4, NANO = "DeepseekV3ForCausalLM", "DeepseekV4ForCausalLM", "Gemma3nForCausalLM"
PLAIN = {"mlp_bias": False, "attention_bias": False}
LOUD = ("w2.weight", "down_proj.weight")


@pytest.fixture
def pair(tmp_path):
    return made(LLAMA, {}, tmp_path)


@pytest.fixture
def plain(tmp_path):
    return made(LLAMA, PLAIN, tmp_path)


def logits(folder, auto=transformers.AutoModelForCausalLM):
    with torch.no_grad():
        return auto.from_pretrained(folder, local_files_only=True).eval()(torch.arange(1, 9)[None]).logits.float()


def whose(folder, pair):
    """Which of the two models computes what a folder computes."""
    outputs = logits(folder)
    return [name for name, own in (("A", pair.a), ("B", pair.b)) if torch.allclose(outputs, logits(own), atol=1e-3)]


def judged(pair, folder):
    return compared(pair.a, folder).verdict


def of_kind(name, settings, folder):
    return made(name, variants(name)[0] | settings, folder)


def test_two_models_are_told_apart_and_two_prefixes_or_a_distributed_one_refused(pair):
    assert (judged(pair, pair.b).code, judged(pair, pair.a).code) == ("unrelated", "inherited")
    verdict = judged(pair, GENERAL["second_prefix"](pair))
    said = "layers stand under model.layers.{layer} and under layers.{layer}: loaders disagree on which of them are the"
    assert verdict.code == "ambiguous"
    assert verdict.reason.endswith(f"{said} model; remove the others")
    folder = pair.write(pair.tensors()[0])
    save_file(pair.tensors()[1], folder / "shard-00001-model-00001-of-00001.safetensors")
    assert "holds a distributed checkpoint (shard-00001" in judged(pair, folder).reason


@pytest.mark.few(6)
@pytest.mark.parametrize("name", [LLAMA, GPT2])
@pytest.mark.parametrize(
    ("kind", "loads", "code", "reason"),
    [
        ("appended", ["B"], "unsupported", "config.json says 2 layers and the weights hold 4: transformers loads"),
        ("foreign_prefix", ["B"], "unrelated", ""),
        ("one_letter_prefix", ["A"], "unused", "are not among those that the class saves, and the base has no equal"),
        ("named_file", ["B"], "ambiguous", "transformers loads other.safetensors, which config.json names"),
        ("named_file_alone", ["A"], "inherited", ""),
        ("file_and_shards", ["B"], "ambiguous", "transformers loads the file, other loaders follow the index;"),
        ("leftovers", ["A"], "unused", ""),
    ],
)
def test_a_decoy_decides_nothing(name, kind, loads, code, reason, tmp_path):
    pair = made(name, {}, tmp_path)
    folder = GENERAL[kind](pair)
    assert whose(folder, pair) == loads
    verdict = judged(pair, folder)
    assert (verdict.code, reason in verdict.reason) == (code, True)


@pytest.mark.parametrize(
    ("settings", "depth", "code", "said"),
    [
        ({"num_hidden_layers": 1}, 1, "unsupported", "layers 0 to 0 and leaves the others out"),
        ({"num_hidden_layers": 3}, 3, "unsupported", "with random numbers"),
        ({"num_hidden_layers": None}, 32, "unsupported", "config.json says 32 layers and the weights hold 2"),
        ({"n_layer": 1}, 2, "ambiguous", "counts the layers twice, num_hidden_layers: 2 and n_layer: 1"),
        ({"configuration_files": ["config.4.0.0.json"]}, 1, "ambiguous", "refers to other files"),
        ({"attribute_map": {"num_hidden_layers": "n"}, "n": 1}, 1, "unsupported", "(`attribute_map`), which"),
    ],
)
def test_as_many_layers_count_as_config_json_says_and_twice_is_nothing_to_go_by(pair, settings, depth, code, said):
    folder = pair.write(pair.tensors()[0], **settings)
    edit_json(folder / "config.4.0.0.json", **{**pair.config, "num_hidden_layers": 1})
    assert len(loaded(folder, transformers.LlamaForCausalLM).model.layers) == depth
    assert depth == 2 or whose(folder, pair) == []
    verdict = judged(pair, folder)
    assert (verdict.code, said in verdict.reason) == (code, True)


def test_layers_that_only_predict_further_tokens_are_left_out_and_said(tmp_path):
    pair = made(DEEPSEEK, {}, tmp_path)
    a, b = pair.tensors()
    after = {name.replace("layers.1.", "layers.2."): tensor for name, tensor in b.items() if "layers.1." in name}
    folder = pair.write({**a, **after}, num_nextn_predict_layers=1)
    assert decoys.whose(folder, pair, transformers.DeepseekV3ForCausalLM) == "A"
    row = compared(pair.a, folder)
    assert (row.verdict.code, row.layers) == ("inherited", 2)
    assert [note for note in row.notes if "only predict further tokens are left out" in note]


def test_the_type_decides_for_transformers_and_the_class_for_others(tmp_path):
    pair = made(LLAMA, {}, tmp_path / "llama")
    other = made(GPT2, {}, tmp_path / "gpt2")
    a, b = pair.tensors()[0], other.tensors()[1]
    a.pop("lm_head.weight")  # GPT-2 would load it in place of its tied embedding
    folder = pair.write({**a, **b}, **{k: v for k, v in other.config.items() if k != "architectures"})
    torch.testing.assert_close(logits(folder), logits(other.b))
    verdict = judged(pair, folder)
    said = "or llama, and says model_type gpt2: transformers uses the type, other loaders use the class; make the two"
    assert verdict.code == "unsupported"
    assert "config.json names the class LlamaForCausalLM, which is of model_type " in verdict.reason
    assert verdict.reason.endswith(f"{said} agree")


def test_a_type_whose_layers_are_read_alike_is_said_and_without_one_the_class_counts(pair):
    row = compared(pair.a, pair.write(pair.tensors()[0], model_type="mistral"))
    said = "config.json says model_type mistral with the class LlamaForCausalLM; the layers of both are read the same"
    assert (row.verdict.code, row.notes) == ("inherited", (f"{pair.folder}: {said} way",))
    folder = pair.write(pair.tensors()[0], model_type=None)
    torch.testing.assert_close(logits(folder, transformers.LlamaForCausalLM), logits(pair.a))
    assert judged(pair, folder).code == "inherited"


def test_code_that_a_repository_brings_is_said_and_attention_may_be_a_repository_too(pair):
    folder = pair.write(pair.tensors()[0], auto_map={"AutoModelForCausalLM": "evil.Evil"})
    assert whose(folder, pair) == ["A"]
    report = compare(pair.a, folder)
    (row,) = report.rows
    assert row.verdict.code == "inherited"
    assert "code of the repository for AutoModelForCausalLM (auto_map)" in row.verdict.reason
    assert row.own_code == (row.verdict.reason,)
    assert as_json.document(report)["claims"][0]["reason"] == row.verdict.reason
    said = {form: report.to_format(form) for form in ("text", "markdown", "html", "sarif")}
    assert [form for form, text in said.items() if "auto" not in text] == []
    from transformers.integrations.hub_kernels import is_kernel

    config = transformers.LlamaConfig.from_dict(ELSEWHERE[2])
    assert is_kernel(config._attn_implementation)


ELSEWHERE = [
    {"auto_map": {"AutoModelForCausalLM": "evil.Evil"}},
    {"text_config": {"auto_map": {"AutoModel": "evil.Evil"}}},
    {"attn_implementation": "someone/their-attention"},
    {"_attn_implementation": {"": "sdpa", "text_config": "someone/their-attention@main:fast"}},
    {"experts_implementation": "someone/their-experts"},
    {},
]
"""Settings that name code; without any it is a file that a loader runs by its name."""


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
    "settings", [{}, {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128] * 2}}]
)
def test_scales_beside_plain_weights_verify_nothing(pair, settings):
    a, _ = pair.tensors()
    scales = {f"{name}_scale_inv": torch.rand(1, 1) for name in a if ".mlp." in name and name.endswith("weight")}
    verdict = judged(pair, pair.write({**a, **scales}, **settings))
    assert verdict.code == "unused"
    assert "6 stored tensors, such as model.layers.0.mlp.down_proj.weight_scale_inv, are not among" in verdict.reason


@pytest.mark.few(1)
@pytest.mark.parametrize("file", ["pytorch_model.bin", "consolidated.safetensors", "model.Q4_K_M.gguf", OTHER])
def test_weights_in_other_files_are_said(pair, file):
    folder = pair.write(pair.tensors()[0])
    save_file(pair.tensors()[1], folder / file)
    assert whose(folder, pair) == ["A"]
    row = compared(pair.a, folder)
    said = "may hold weights too and was not read: transformers loads model.safetensors, other loaders may choose"
    assert (row.verdict.code, row.notes) == ("inherited", (f"{folder}: {file} {said} otherwise",))


def test_an_adapter_that_makes_another_model_of_the_weights_leaves_the_claim_open(pair):
    """Merged into A's weights, it makes B's MLPs of them."""
    a, b = pair.tensors()
    folder, factors = pair.write(a), {}
    for name in [name for name in a if ".mlp." in name and a[name].ndim == 2]:
        left, values, right = torch.linalg.svd(b[name] - a[name], full_matrices=False)
        module = f"base_model.model.{name.removesuffix('.weight')}"
        factors[f"{module}.lora_A.weight"] = (values.sqrt()[:, None] * right).contiguous()
        factors[f"{module}.lora_B.weight"] = (left * values.sqrt()).contiguous()
    adapters.written(folder, factors, r=32, lora_alpha=32, base_model_name_or_path=str(folder))
    assert not torch.allclose(logits(folder), logits(pair.a), atol=1e-1)
    assert judged(pair, folder).code == "ambiguous"


@pytest.mark.parametrize(
    ("name", "builds", "leaves_out"),
    [
        (QWEN, {"mlp_only_layers": []}, {"mlp_only_layers": [0, 1]}),
        (QWEN, {"num_local_experts": 4}, {"num_local_experts": 0}),
        (DEEPSEEK, {"first_k_dense_replace": 0}, {"first_k_dense_replace": 2}),
        (GEMMA, {"enable_moe_block": True, "top_k_experts": 2}, {"enable_moe_block": False}),
        ("GraniteMoeHybridForCausalLM", {"num_local_experts": 4}, {"num_local_experts": 0}),
        ("Dinov2WithRegistersModel", {"use_swiglu_ffn": True}, {"use_swiglu_ffn": False}),
    ],
)
@pytest.mark.few(2)
def test_a_part_that_the_class_does_not_build_as_config_json_is_decides_nothing(tmp_path, name, builds, leaves_out):
    full, lean = (of_kind(name, settings, tmp_path / str(at)) for at, settings in enumerate((builds, leaves_out)))
    (a, _), (_, b) = full.tensors(), lean.tensors()
    added = a.keys() - b.keys()
    folder = lean.write({**a, **b})
    assert decoys.whose(folder, lean, getattr(transformers, name)) == "B"
    assert added
    assert not judged(full, folder).is_related
    assert compared(lean.b, folder).verdict.label == "RELATED unused"


@pytest.mark.parametrize(("loud", "name"), [(False, "unrelated"), (True, "unused")])
def test_a_shared_expert_in_a_class_without_one_neither_forges_nor_hides_a_descent(tmp_path, loud, name):
    pair = made(QWEN, {}, tmp_path)
    a, b = pair.tensors()
    own = a if loud else b
    shared = {
        tensor.replace("experts.0.", "shared_expert."): (torch.randn_like(a[tensor]) if loud else a[tensor]) * 100
        for tensor in a
        if "experts.0." in tensor
    }
    folder = pair.write({**own, **shared})
    torch.testing.assert_close(logits(folder), logits(pair.a if loud else pair.b), atol=0, rtol=0)
    verdict = judged(pair, folder)
    assert (verdict.code, f"{len(shared)} stored tensors, such as" in verdict.reason) == (name, loud)


def test_what_transformers_makes_up_or_does_not_read_verifies_and_changes_nothing(plain):
    a, _ = plain.tensors()
    for name in ("mlp.gate_proj.bias", "mlp.up_proj.bias", "post_attention_layernorm.bias"):
        rows = a[f"model.layers.0.{name.replace('.bias', '.weight')}"].shape[0]
        folder = plain.write({**a, **{f"model.layers.{layer}.{name}": torch.full((rows,), -1e4) for layer in (0, 1)}})
        torch.testing.assert_close(logits(folder), logits(plain.a))
        assert judged(plain, folder).code == "unused"
    for tensors in plain.tensors():
        folder = plain.write({name: each for name, each in tensors.items() if name != "model.norm.weight"})
        verdict = judged(plain, folder)
        assert verdict.code == "inconclusive"
        assert "model.norm.weight: transformers fills them with random" in verdict.reason
    junk = {"top_k_experts": 0, "residual_multiplier": 0.0, "activation_sparsity_pattern": [1.0], "swiglu_limit": 0}
    folder = plain.write(plain.tensors()[1], **junk, more={"embedding_multiplier": 0})
    torch.testing.assert_close(logits(folder), logits(plain.b))
    assert judged(plain, folder).code == "unrelated"


def test_numbers_that_float16_flushes_to_zero_forge_no_descent(plain):
    a, b = plain.tensors()
    parts = ("gate_proj", "up_proj", "down_proj")
    for name in [name for name in b if ".mlp.down_proj." in name]:
        gate, up, down = (a[name.replace("down_proj", part)] for part in parts)
        mine = [b[name.replace("down_proj", part)] for part in parts]
        up, down = up / up.abs().max() * 2.0**-25, down / down.abs().max() * 6e4
        whole = torch.cat([mine[0], gate]), torch.cat([mine[1], up]), torch.cat([mine[2] * 1e-3, down], 1)
        b |= {name.replace("down_proj", part): tensor for part, tensor in zip(parts, whole, strict=True)}
    for name in [name for name in b if name.endswith(("embed_tokens.weight", "o_proj.weight"))]:
        b[name] = b[name] * 1e-3
    settings = {"intermediate_size": whole[0].shape[0], "rms_norm_eps": 1e-12}
    halved = plain.write(b, dtype="float16", **settings)
    assert np.corrcoef(logits(halved).flatten(), logits(plain.b).flatten())[0, 1] > 0.99
    assert judged(plain, halved).code == "unrelated"


def is_late(name):
    return ".experts.2." in name or ".experts.3." in name


def unreached(rows):
    """What takes the last two experts of A where routers of these rows times one vector reach the others alone."""

    def mix(a, b):
        torch.manual_seed(0)
        row = torch.randn(next(tensor for name, tensor in b.items() if name.endswith("gate.weight")).shape[1])
        mixed = {name: a[name] * (100 if name.endswith(LOUD) else 1) if is_late(name) else b[name] for name in b}
        for name in b:
            if name.endswith("gate.weight"):
                mixed[name] = torch.tensor(rows)[:, None] * row
            elif ".experts.1." in name and rows[1] < -1:  # one of the two experts that work is given twice
                mixed[name] = b[name.replace(".experts.1.", ".experts.0.")]
        return mixed

    return mix


def never_chosen(a, b):
    """The last two experts of A, which the bias of the router never chooses."""
    mixed = {name: a[name] * (100 if name.endswith(LOUD) else 1) if is_late(name) else b[name] for name in b}
    for name in b:
        if name.endswith(("gate.bias", "router.expert_bias")):
            mixed[name] = torch.tensor([0.0, 0.0, -100.0, -100.0])
        elif name.endswith("gate.tid2eid"):
            mixed[name] = torch.tensor([[0, 1]]).repeat(len(b[name]), 1)
    return mixed


def silent(a, b):
    """The MLP of a layer of A, whose activation gives nothing."""
    dead, mixed = "model.layers.1.mlp.", dict(b)
    for end, value in (("alpha_p", -200.0), ("alpha_n", -200.0), ("beta", 0.0)):
        mixed[f"{dead}act_fn.{end}"] = torch.full_like(b[f"{dead}act_fn.{end}"], value)
    loud = {f"{dead}{end}.weight": by for end, by in (("up_proj", 1), ("down_proj", 100))}
    return mixed | {name: a[name] * by for name, by in loud.items()}


def all_experts(scale):
    """All experts of A, with these scales of their own."""

    def mix(a, b):
        mixed = {name: a[name] if ".experts." in name else tensor for name, tensor in b.items()}
        ends = [name for name in mixed if scale and name.endswith("per_expert_scale")]
        return mixed | {name: torch.full_like(mixed[name], scale) for name in ends}

    return mix


FOUR = {"num_local_experts": 4}
IDLE = {
    "mixed in with nothing": (MIXTRAL, FOUR | {"num_experts_per_tok": 2}, unreached((1e8, -1e8, 0, 0)), is_late),
    "outbid": (MIXTRAL, FOUR | {"num_experts_per_tok": 1}, unreached((1, -1, 0.5, -0.5)), is_late),
    "never chosen, DeepSeek": (DEEPSEEK4, variants(DEEPSEEK4)[0], never_chosen, is_late),
    "never chosen, Kolibri": (KOLIBRI, variants(KOLIBRI)[0], never_chosen, is_late),
    "an activation": (APERTUS, variants(APERTUS)[0], silent, lambda name: "layers.1.mlp.down_proj" in name),
    "a scale of their own": (
        GEMMA, variants(GEMMA)[1], all_experts(1e-20), lambda name: ".experts." in name, {},
        "layers.0.router.per_expert_scale holds numbers of the size",
    ),
    "none for a token": (
        GEMMA, variants(GEMMA)[1], all_experts(None), lambda name: ".experts." in name, {"top_k_experts": 0},
        "`top_k_experts: 0`, with which a branch of the layers of gemma4_text",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", IDLE)
def test_experts_and_layers_that_nothing_reaches_forge_no_descent(tmp_path, case):
    name, wanted, mix, idle, settings, said = (*IDLE[case], {}, "")[:6]
    pair = made(name, wanted, tmp_path)
    mixed = mix(*pair.tensors())
    without = logits(pair.write({key: one * 0 if idle(key) else one for key, one in mixed.items()}, **settings))
    assert any(map(idle, mixed))
    torch.testing.assert_close(logits(pair.write(mixed, **settings)), without, atol=1e-3, rtol=1e-3)
    verdict = judged(pair, pair.folder)
    assert (verdict.verified, said in verdict.reason) == (False, True)
    assert judged(pair, pair.a).verified


MULTIPLIED = [
    *(
        (GRANITE, PLAIN, {key: value}, f"`{key}: {float(value)!r}`")
        for key, value in (("residual_multiplier", 0), ("embedding_multiplier", 0), ("rms_norm_eps", 1e9))
    ),
    (NANO, None, {"activation_sparsity_pattern": [1.0 - 1e-7] * 2}, "leaves almost nothing of the hidden units"),
    (GRANITE, None, {"embedding_multiplier": 1e7}, "so large that the other parts of the layers add almost nothing:"),
]


@pytest.mark.parametrize(("name", "wanted", "settings", "said"), MULTIPLIED)
def test_settings_that_take_the_layers_out_or_drown_them_are_refused(tmp_path, name, wanted, settings, said):
    pair = of_kind(name, {}, tmp_path) if wanted is None else made(name, wanted, tmp_path)
    a, b = pair.tensors()
    whole = {**b, **{key: tensor for key, tensor in a.items() if ".layers." in key}}
    dead = {key: tensor * 0 if key.endswith("mlp.down_proj.weight") else tensor for key, tensor in whole.items()}
    without = logits(pair.write(dead, **settings))
    folder = pair.write(whole, **settings)
    torch.testing.assert_close(logits(folder), without, atol=1e-2, rtol=1e-2)
    verdict = judged(pair, folder)
    assert (verdict.code, said in verdict.reason) == ("unsupported", True)


def test_routed_experts_that_are_multiplied_with_next_to_nothing_are_refused(tmp_path):
    pair = made(DEEPSEEK, {"first_k_dense_replace": 0}, tmp_path)
    folder = pair.write(pair.tensors()[0], routed_scaling_factor=1e-2)
    assert "`routed_scaling_factor: 0.01`, which takes the experts out of the model," in judged(pair, folder).reason
