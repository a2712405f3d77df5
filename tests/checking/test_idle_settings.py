"""Settings and small tensors that leave stored weights unused: the model's logits stand beside each verdict."""

import pytest
import torch

from hf_lineage import compare
from tests.checking.test_idle_weights import LLAMA, PLAIN, logits
from tests.conformance.forms import variants
from tests.decoys import made

DEEPSEEK, KOLIBRI, APERTUS = "DeepseekV4ForCausalLM", "Kolibri1ForCausalLM", "ApertusForCausalLM"
GEMMA, NANO, GRANITE = "Gemma4ForCausalLM", "Gemma3nForCausalLM", "GraniteForCausalLM"
MIXED = variants(GEMMA)[1]
NEVER = -100.0


def judged(pair, folder):
    (row,) = compare(str(pair.a), str(folder)).rows
    return row.verdict


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
            DEEPSEEK,
            {
                "gate.bias": lambda _: torch.tensor([0.0, 0.0, NEVER, NEVER]),
                "gate.tid2eid": lambda table: torch.tensor([[0, 1]]).repeat(len(table), 1),
            },
        ),
        (KOLIBRI, {"router.expert_bias": lambda _: torch.tensor([0.0, 0.0, NEVER, NEVER])}),
    ],
)
def test_experts_that_the_router_never_chooses_forge_no_descent(tmp_path, name, edits):
    pair = made(name, variants(name)[0], tmp_path)
    mixed, without = idle_experts(pair, edits)
    expected = logits(pair.write(without))
    torch.testing.assert_close(logits(pair.write(mixed)), expected)
    assert not judged(pair, pair.folder).verified
    assert judged(pair, pair.a).verified


@pytest.mark.parametrize("learned", [(-200.0, -200.0, 0.0)])
def test_a_layer_whose_activation_gives_nothing_forges_no_descent(tmp_path, learned):
    pair = made(APERTUS, variants(APERTUS)[0], tmp_path)
    a, b = pair.tensors()
    dead = "model.layers.1.mlp."
    for end, value in zip(("alpha_p", "alpha_n", "beta"), learned, strict=True):
        b[f"{dead}act_fn.{end}"] = torch.full_like(b[f"{dead}act_fn.{end}"], value)
    for end, factor in (("up_proj", 1), ("down_proj", 100)):
        b[f"{dead}{end}.weight"] = a[f"{dead}{end}.weight"] * factor
    without = logits(pair.write({**b, f"{dead}down_proj.weight": b[f"{dead}down_proj.weight"] * 0}))
    torch.testing.assert_close(logits(pair.write(b)), without)
    assert not judged(pair, pair.folder).verified
    assert judged(pair, pair.a).verified


def switched_off(pair, change, **settings):
    """B with A's experts, which such a change keeps out of its logits."""
    a, b = pair.tensors()
    mixed = {name: change(name, a[name] if ".experts." in name else tensor) for name, tensor in b.items()}
    without = {name: tensor * 0 if ".experts." in name else tensor for name, tensor in mixed.items()}
    expected = logits(pair.write(without, **settings))
    torch.testing.assert_close(logits(pair.write(mixed, **settings)), expected, atol=1e-3, rtol=1e-3)
    return judged(pair, pair.folder)


def test_experts_that_a_scale_of_their_own_multiplies_with_nothing_verify_nothing(tmp_path):
    def scaled(name, tensor):
        return torch.full_like(tensor, 1e-20) if name.endswith("per_expert_scale") else tensor

    verdict = switched_off(made(GEMMA, MIXED, tmp_path), scaled)
    assert verdict.code == "inconclusive"
    assert "layers.0.router.per_expert_scale holds numbers of the size" in verdict.reason


def test_no_experts_of_a_token_verify_nothing(tmp_path):
    verdict = switched_off(made(GEMMA, MIXED, tmp_path), lambda _, tensor: tensor, top_k_experts=0)
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
    pair = made(name, variants(name)[0], tmp_path)
    a = pair.tensors()[0]
    folder = pair.write(a, **settings)
    whole = logits(folder)
    dead = {key: tensor * 0 if key.endswith("mlp.down_proj.weight") else tensor for key, tensor in a.items()}
    torch.testing.assert_close(logits(pair.write(dead, **settings)), whole, atol=1e-3, rtol=1e-3)
    verdict = judged(pair, pair.write(a, **settings))
    assert verdict.code == "unsupported"
    assert said in verdict.reason


def test_settings_that_the_class_does_not_read_change_nothing(tmp_path):
    pair = made(LLAMA, PLAIN, tmp_path)
    junk = {"top_k_experts": 0, "residual_multiplier": 0.0, "activation_sparsity_pattern": [1.0], "swiglu_limit": 0}
    folder = pair.write(pair.tensors()[1], **junk, more={"embedding_multiplier": 0})
    torch.testing.assert_close(logits(folder), logits(pair.b))
    assert judged(pair, folder).code == "unrelated"
