"""Weights that a model stores and does not use: each folder is loaded, and its logits stand beside the verdict."""

import numpy as np
import pytest
import torch
import transformers

from hf_lineage import compare
from tests import decoys
from tests.conformance.forms import variants
from tests.decoys import made

LLAMA, MIXTRAL, QWEN, DEEPSEEK = (
    "LlamaForCausalLM",
    "MixtralForCausalLM",
    "Qwen3MoeForCausalLM",
    "DeepseekV3ForCausalLM",
)
TOKENS = torch.arange(1, 9)[None]
PLAIN = {"mlp_bias": False, "attention_bias": False}


def logits(folder):
    with torch.no_grad():
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
        return model(TOKENS).logits.float()


def judged(base, folder):
    (row,) = compare(str(base), str(folder)).rows
    return row.verdict


@pytest.mark.parametrize(
    ("rows", "chosen"), [((1e8, -1e8, 0, 0), 2), ((1, -1, 0.5, -0.5), 1)], ids=["mixed in with nothing", "outbid"]
)
def test_experts_that_no_token_reaches_forge_no_descent(tmp_path, rows, chosen):
    settings = {"num_local_experts": 4, "num_experts_per_tok": chosen}
    pair = made(MIXTRAL, settings, tmp_path)
    a, b = pair.tensors()
    torch.manual_seed(0)
    row = torch.randn(next(tensor for name, tensor in b.items() if name.endswith("gate.weight")).shape[1])
    mixed = {**b}
    for name in b:
        if name.endswith("gate.weight"):
            mixed[name] = torch.tensor(rows)[:, None] * row
        elif ".experts.1." in name and chosen == 2:  # one of the two experts that work is given twice
            mixed[name] = b[name.replace(".experts.1.", ".experts.0.")]
        elif ".experts.2." in name or ".experts.3." in name:
            mixed[name] = a[name] * (100 if name.endswith("w2.weight") else 1)
    idle = {
        name: tensor * 0 if ".experts.2." in name or ".experts.3." in name else tensor for name, tensor in mixed.items()
    }
    without = logits(pair.write(idle))
    torch.testing.assert_close(logits(pair.write(mixed)), without, atol=1e-3, rtol=1e-3)
    assert not judged(pair.a, pair.folder).verified


def of_kind(name, settings, folder):
    """Two independent models of a class in one of its forms."""
    return made(name, variants(name)[0] | settings, folder)


@pytest.mark.parametrize(
    ("name", "builds", "leaves_out"),
    [
        (QWEN, {"mlp_only_layers": []}, {"mlp_only_layers": [0, 1]}),
        (QWEN, {"num_local_experts": 4}, {"num_local_experts": 0}),
        (DEEPSEEK, {"first_k_dense_replace": 0}, {"first_k_dense_replace": 2}),
        ("Gemma4ForCausalLM", {"enable_moe_block": True, "top_k_experts": 2}, {"enable_moe_block": False}),
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
    assert not judged(full.a, folder).is_related
    verdict = judged(lean.b, folder)
    assert (verdict.label, verdict.verified) == ("RELATED unused", False)


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
    (row,) = compare(str(pair.a), str(folder)).rows
    assert (row.verdict.code, row.verdict.verified) == (name, False)
    assert (f"{len(shared)} stored tensors, such as" in row.verdict.reason) is loud


@pytest.mark.parametrize("name", ["mlp.gate_proj.bias", "mlp.up_proj.bias", "post_attention_layernorm.bias"])
def test_a_bias_that_no_module_loads_decides_nothing(tmp_path, name):
    pair = made(LLAMA, PLAIN, tmp_path)
    a, _ = pair.tensors()
    rows = a[f"model.layers.0.{name.replace('.bias', '.weight')}"].shape[0]
    folder = pair.write({**a, **{f"model.layers.{layer}.{name}": torch.full((rows,), -1e4) for layer in (0, 1)}})
    torch.testing.assert_close(logits(folder), logits(pair.a))
    assert judged(pair.a, folder).code == "unused"


def test_what_transformers_makes_up_verifies_and_contradicts_nothing(tmp_path):
    pair = made(LLAMA, PLAIN, tmp_path)
    for tensors in pair.tensors():
        folder = pair.write({name: each for name, each in tensors.items() if name != "model.norm.weight"})
        verdict = judged(pair.a, folder)
        assert verdict.code == "inconclusive"
        assert "model.norm.weight: transformers fills them with random" in verdict.reason


def test_numbers_that_float16_flushes_to_zero_forge_no_descent(tmp_path):
    pair = made(LLAMA, PLAIN, tmp_path)
    a, b = pair.tensors()
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
    halved = pair.write(b, dtype="float16", **settings)
    assert np.corrcoef(logits(halved).flatten(), logits(pair.b).flatten())[0, 1] > 0.99
    assert judged(pair.a, halved).code == "unrelated"


def test_keys_that_stand_for_others_are_refused(tmp_path):
    pair = made(LLAMA, PLAIN, tmp_path)
    folder = pair.write(pair.tensors()[0], attribute_map={"num_hidden_layers": "depth"}, depth=1)
    assert len(transformers.AutoModelForCausalLM.from_pretrained(folder).model.layers) == 1
    assert "(`attribute_map`), which transformers follows" in judged(pair.a, folder).reason


def test_routed_experts_that_are_multiplied_with_next_to_nothing_are_refused(tmp_path):
    pair = made(DEEPSEEK, {"first_k_dense_replace": 0}, tmp_path)
    folder = pair.write(pair.tensors()[0], routed_scaling_factor=1e-2)
    assert "`routed_scaling_factor: 0.01`, which takes the experts out of the model," in judged(pair.a, folder).reason
