"""Weight that does nothing turns no verdict unless there is more of it than of the model, whose logits stay."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from hf_lineage.checking.check import compare
from hf_lineage.evidence import permutation
from hf_lineage.source.options import Options
from tests import attacks
from tests.laundering import outputs
from tests.streams import rotated, written

HUB = Path(__file__).parents[2] / "examples" / "hub"
BASE, INDEPENDENT = "acme/llama-base", "otter/llama-independent"


def load(name):
    return AutoModelForCausalLM.from_pretrained(HUB / name, dtype="float32", local_files_only=True)


def attacked(folder, source, attack):
    """A model after an attack, saved, and by how much its logits moved in units of their standard deviation."""
    torch.manual_seed(0)
    model, base = load(source), load(BASE)
    before = outputs(model)
    attack(model, base)
    model.save_pretrained(folder)
    again = AutoModelForCausalLM.from_pretrained(folder, dtype="float32", local_files_only=True)
    return float((outputs(again) - before).abs().max() / before.std())


def judged(folder, options=None):
    (row,) = compare(str(HUB / BASE), str(folder), options).rows
    return row.verdict


HIDING = {
    "one unit whose norms overflow": attacks.overflow,
    "64 dead units, thirty times as large": attacks.dead_noise(64, 30),
    "one dead unit, a million times as large": attacks.dead_noise(1, 1e3),
    "one unit split into 350": attacks.split(350),
}
FORGING = {
    "the first singular direction of the base, overflowing": attacks.singular,
    "the base's units behind closed gates, three times as large": attacks.carried(0.0, 3**0.5),
    "the base's units behind gates that hardly open": attacks.carried(1e-5, 3**0.5),
    "a copy of the base's units that writes a millionth": attacks.carried(1.0, 1.0, down=1e-6),
    "two copies of the base's units that write a millionth": attacks.carried(1.0, 1.0, copies=2, down=1e-6),
    "the base's units, each beside its opposite": attacks.cancelling,
    "the base's layers, their outputs times 1e-15": attacks.faint_layers,
}


@pytest.mark.few(1)
@pytest.mark.parametrize("attack", HIDING.values(), ids=HIDING)
def test_dead_weight_does_not_hide_a_copy(tmp_path, attack):
    assert attacked(tmp_path, BASE, attack) < 1e-4
    verdict = judged(tmp_path)
    assert (verdict.label, verdict.verified) == ("VERIFIED inherited", True)
    assert verdict.evidence["mlp"].inherited.share > 0.7


@pytest.mark.long
def test_more_dead_units_than_the_model_has_leave_what_its_heads_show(tmp_path):
    assert attacked(tmp_path, BASE, attacks.dead_noise(352, 10)) < 1e-4
    assert (judged(tmp_path).label, judged(tmp_path).verified) == ("RELATED part", False)


@pytest.mark.parametrize("attack", FORGING.values(), ids=FORGING)
@pytest.mark.few(1)
def test_dead_weight_of_the_base_does_not_forge_descent(tmp_path, attack):
    """As many units as the model has show in its MLPs; its heads show nothing."""
    assert attacked(tmp_path, INDEPENDENT, attack) < 1e-3
    assert not judged(tmp_path).verified


def loud_opposites(tensors):
    """Random units behind those there are, twenty times as loud, each beside its opposite: together they do nothing."""
    torch.manual_seed(0)
    changed = dict(tensors)
    for name in [name for name in tensors if name.endswith("mlp.down_proj.weight")]:
        more = torch.randn(96, 512)
        changed[name] = torch.cat([tensors[name], 20 * more, -20 * more], dim=1)
        for reader in (name.replace("down_proj", "gate_proj"), name.replace("down_proj", "up_proj")):
            rows = torch.randn(512, 96)
            changed[reader] = torch.cat([tensors[reader], rows, rows])
    return changed


@pytest.mark.long
def test_loud_units_beside_their_opposites_do_not_make_a_rotated_copy_unrelated(tmp_path):
    config = {"intermediate_size": 256 + 1024, "dtype": "float32"}
    folder = written(BASE, tmp_path / "copy", rotated, loud_opposites, **config)
    before, after = outputs(load(BASE)), outputs(load(folder))
    assert float((after - before).abs().max() / before.std()) < 0.2
    verdict = judged(folder)
    assert (verdict.code, int(verdict.exit_code)) == ("inconclusive", 3)
    assert verdict.reason.startswith(
        "most of what its hidden units write is cancelled by other units of the same layer"
    )


def test_a_constant_on_the_stream_that_layer_norm_takes_out_hides_nobody(tmp_path, monkeypatch):
    """Every writer of a fine-tuned GPT-2 adds one number to all residual coordinates, far larger than its weights."""
    model = load("fern/gpt2-finetune-a")
    before = outputs(model)
    for name, weight in model.named_parameters():
        if name.endswith("c_proj.weight"):
            weight.data += 100 * weight.std() * torch.randn(len(weight), 1, generator=torch.manual_seed(0))
    assert (outputs(model) - before).abs().max() < 1e-3 * before.std()
    model.save_pretrained(tmp_path)
    found = compare(str(HUB / "acme/gpt2-base"), str(tmp_path)).rows[0].verdict
    assert (found.verified, found.by_path["mlp"].code) == (True, "inherited")
    monkeypatch.setattr(permutation, "_over", lambda inner, norms: inner)
    found = compare(str(HUB / "acme/gpt2-base"), str(tmp_path)).rows[0].verdict
    assert found.by_path["mlp"].code == "unrelated", "flips move the means, which have to leave the norm as well"


def test_a_product_that_was_blended_in_without_its_units_verifies_nothing(tmp_path):
    attacked(tmp_path, INDEPENDENT, attacks.blended)
    verdict = judged(tmp_path)
    assert verdict.evidence["mlp"].p_value == 0.003
    assert (verdict.label, verdict.verified, int(verdict.exit_code)) == ("RELATED embedding", False, 3)


@pytest.mark.long
def test_grafted_layers_are_related_in_part_and_named(tmp_path):
    attacked(tmp_path, INDEPENDENT, attacks.grafted(1, 4))
    verdict = judged(tmp_path)
    assert (verdict.label, verdict.verified, int(verdict.exit_code)) == ("RELATED part", False, 3)
    assert verdict.reason.endswith("% of what its units write is inherited, in layers 1, 4")
    accepted = judged(tmp_path, Options(accept=("part",)))
    assert (accepted.label, accepted.verified, int(accepted.exit_code)) == ("RELATED part", False, 0)
