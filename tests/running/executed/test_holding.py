"""Without some of its parts a model says something else: by how much is counted in nats, or as a share of its state."""

import pytest
import torch

from hf_lineage.running.executed.holding import divergences, held_inputs
from tests.running.executed.models import ARCHITECTURES, loaded, lost, saved


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_nothing_is_lost_without_nothing_and_something_without_everything(tmp_path, name):
    model = loaded(saved(tmp_path, name), name)
    units = {each.writer.key: range(each.writer.parts) for each in model.places if each.writer.key.startswith("mlp")}
    _, (unit, nothing, says) = lost(model, {})
    assert (unit, float(nothing.abs().max()), says > 0) == ("nats", pytest.approx(0, abs=1e-9), True)
    assert float(lost(model, units)[1][1].mean()) > 1e-3 * says


def test_a_loss_is_the_divergence_of_what_is_predicted_next():
    before, after = (torch.randn(64, 10, 64, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    outputs = [type("Output", (), {"logits": logits})() for logits in (before, after)]
    unit, moved, _ = divergences(*outputs, 9)
    by_hand = torch.distributions.kl_divergence(*(torch.distributions.Categorical(logits=x) for x in (before, after)))
    assert unit == "nats"
    torch.testing.assert_close(moved.float(), by_hand[:, 1:].mean(dim=1))


def test_without_a_head_a_loss_is_a_share_of_the_last_state():
    states = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(1))
    unit, moved, says = divergences((states,), (0.9 * states,), 2)
    assert (unit, says > 0.1) == ("change", True)
    torch.testing.assert_close(moved.float(), torch.full((4,), 0.1))


def test_parts_that_always_write_the_same_are_no_loss(tmp_path):
    def constant(model):
        mlp = model.model.layers[0].mlp
        for linear in (mlp.up_proj, mlp.gate_proj):
            linear.weight.data.zero_()
            linear.bias.data.fill_(3.0)

    model = loaded(saved(tmp_path, "LlamaForCausalLM", constant), "LlamaForCausalLM")
    idle, at_work = (float(lost(model, {key: range(40)})[1][1].mean()) for key in ("mlp 0 0", "mlp 1 0"))
    assert 0 <= idle < 1e-4 * at_work


def test_one_expert_of_a_stack_is_held_and_no_other(tmp_path):
    model = loaded(saved(tmp_path, "MixtralForCausalLM"), "MixtralForCausalLM")
    held = held_inputs(model, {"mlp 0 2": [3, 5]})
    assert {at: inputs.tolist() for at, inputs in held.items()} == {("model.layers.0.mlp.experts", 2): [3, 5]}
