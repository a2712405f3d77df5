"""Weights that a model stores and does not use, by themselves or by a setting: logits stand beside each verdict."""

import numpy as np
import pytest
import torch
import transformers

from hf_lineage import compare
from tests import decoys
from tests.conformance.forms import variants
from tests.decoys import made

LLAMA, MIXTRAL, QWEN = "LlamaForCausalLM", "MixtralForCausalLM", "Qwen3MoeForCausalLM"
DEEPSEEK, DEEPSEEK4, KOLIBRI = "DeepseekV3ForCausalLM", "DeepseekV4ForCausalLM", "Kolibri1ForCausalLM"
APERTUS, GEMMA, NANO, GRANITE = "ApertusForCausalLM", "Gemma4ForCausalLM", "Gemma3nForCausalLM", "GraniteForCausalLM"
TOKENS = torch.arange(1, 9)[None]
NEVER = -100.0
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


def idle_experts(pair, edits):
    """B with two idle experts of A's in each layer, and the same with zeros in their place."""
    a, b = pair.tensors()
    b |= {name: edit(b[name]) for name in b for end, edit in edits.items() if name.endswith(end)}
    idle = [name for name in b if ".experts.2." in name or ".experts.3." in name]
    assert idle
    loud = {name: a[name] * (100 if name.endswith(("w2.weight", "down_proj.weight")) else 1) for name in idle}
    return {**b, **loud}, {**b, **{name: b[name] * 0 for name in idle}}


@pytest.mark.parametrize(
    ("name", "edits"),
    [
        (
            DEEPSEEK4,
            {
                "gate.bias": lambda _: torch.tensor([0.0, 0.0, NEVER, NEVER]),
                "gate.tid2eid": lambda table: torch.tensor([[0, 1]]).repeat(len(table), 1),
            },
        ),
        (KOLIBRI, {"router.expert_bias": lambda _: torch.tensor([0.0, 0.0, NEVER, NEVER])}),
    ],
)
def test_experts_that_the_router_never_chooses_forge_no_descent(tmp_path, name, edits):
    pair = of_kind(name, {}, tmp_path)
    mixed, without = idle_experts(pair, edits)
    expected = logits(pair.write(without))
    torch.testing.assert_close(logits(pair.write(mixed)), expected)
    assert not judged(pair.a, pair.folder).verified
    assert judged(pair.a, pair.a).verified


@pytest.mark.parametrize("learned", [(-200.0, -200.0, 0.0)])
def test_a_layer_whose_activation_gives_nothing_forges_no_descent(tmp_path, learned):
    pair = of_kind(APERTUS, {}, tmp_path)
    a, b = pair.tensors()
    dead = "model.layers.1.mlp."
    for end, value in zip(("alpha_p", "alpha_n", "beta"), learned, strict=True):
        b[f"{dead}act_fn.{end}"] = torch.full_like(b[f"{dead}act_fn.{end}"], value)
    for end, factor in (("up_proj", 1), ("down_proj", 100)):
        b[f"{dead}{end}.weight"] = a[f"{dead}{end}.weight"] * factor
    without = logits(pair.write({**b, f"{dead}down_proj.weight": b[f"{dead}down_proj.weight"] * 0}))
    torch.testing.assert_close(logits(pair.write(b)), without)
    assert not judged(pair.a, pair.folder).verified
    assert judged(pair.a, pair.a).verified


def switched_off(pair, change, **settings):
    """B with A's experts, which such a change keeps out of its logits."""
    a, b = pair.tensors()
    mixed = {name: change(name, a[name] if ".experts." in name else tensor) for name, tensor in b.items()}
    without = {name: tensor * 0 if ".experts." in name else tensor for name, tensor in mixed.items()}
    expected = logits(pair.write(without, **settings))
    torch.testing.assert_close(logits(pair.write(mixed, **settings)), expected, atol=1e-3, rtol=1e-3)
    return judged(pair.a, pair.folder)


def test_experts_that_a_scale_of_their_own_multiplies_with_nothing_verify_nothing(tmp_path):
    def scaled(name, tensor):
        return torch.full_like(tensor, 1e-20) if name.endswith("per_expert_scale") else tensor

    verdict = switched_off(made(GEMMA, variants(GEMMA)[1], tmp_path), scaled)
    assert verdict.code == "inconclusive"
    assert "layers.0.router.per_expert_scale holds numbers of the size" in verdict.reason


def test_no_experts_of_a_token_verify_nothing(tmp_path):
    verdict = switched_off(made(GEMMA, variants(GEMMA)[1], tmp_path), lambda _, tensor: tensor, top_k_experts=0)
    assert verdict.code == "inconclusive"
    assert "config.json says `top_k_experts: 0`, with which a branch of the layers of gemma4_text" in verdict.reason


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        (NANO, {"activation_sparsity_pattern": [1.0 - 1e-7] * 2}, "leaves almost nothing of the hidden units"),
        (GRANITE, {"embedding_multiplier": 1e7}, "so large that the other parts of the layers add almost nothing:"),
    ],
)
def test_multipliers_beside_which_layers_are_nothing_are_refused(tmp_path, name, settings, said):
    pair = of_kind(name, {}, tmp_path)
    a = pair.tensors()[0]
    folder = pair.write(a, **settings)
    whole = logits(folder)
    dead = {key: tensor * 0 if key.endswith("mlp.down_proj.weight") else tensor for key, tensor in a.items()}
    torch.testing.assert_close(logits(pair.write(dead, **settings)), whole, atol=1e-3, rtol=1e-3)
    verdict = judged(pair.a, pair.write(a, **settings))
    assert verdict.code == "unsupported"
    assert said in verdict.reason


def test_settings_that_the_class_does_not_read_change_nothing(tmp_path):
    pair = made(LLAMA, PLAIN, tmp_path)
    junk = {"top_k_experts": 0, "residual_multiplier": 0.0, "activation_sparsity_pattern": [1.0], "swiglu_limit": 0}
    folder = pair.write(pair.tensors()[1], **junk, more={"embedding_multiplier": 0})
    torch.testing.assert_close(logits(folder), logits(pair.b))
    assert judged(pair.a, folder).code == "unrelated"
