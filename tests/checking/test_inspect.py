"""Pairing follows the paper: right partners in a trained model, chance in a random one."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hf_lineage.checking.check import inspect
from hf_lineage.checking.inspect import Pairing, pairing
from hf_lineage.hub.repo import resolve
from hf_lineage.source.headers import headers
from tests.conformance.models import tiny_model
from tests.models import WEIGHTS, edit_json, spoil

HUB = Path(__file__).parents[2] / "examples" / "hub"
LLAMA = HUB / "acme" / "llama-base"


def scores(folder):
    opened = headers(resolve(str(folder)))
    return pairing(opened.checkpoint, opened.layout, "mlp")


def changed(folder, change, **settings):
    copy = shutil.copytree(LLAMA, folder / "model")
    edit_json(copy / "config.json", **settings)
    return spoil(copy, change)


def test_the_scores_are_the_trace_over_the_norm_and_right_for_a_trained_base_alone():
    for base in ("llama-base", "gpt2-base"):
        inspected = inspect(str(HUB / "acme" / base)).pairings["mlp"]
        assert (inspected.accuracy, inspected.auc > 0.95) == (1.0, True)
    inspected = scores(LLAMA)
    weights = load_file(LLAMA / WEIGHTS)

    def weight(layer, name):
        return weights[f"model.layers.{layer}.mlp.{name}.weight"].double()

    for i, j in ((0, 0), (0, 3), (5, 2)):
        m = weight(i, "down_proj") @ weight(j, "up_proj")
        # The norm is estimated from 64 probes, the trace is exact.
        assert inspected.scores[i, j] == pytest.approx(float(m.trace().abs() / m.norm()), rel=0.1)
    assert inspected.signs[0] == np.sign(float((weight(0, "down_proj") @ weight(0, "up_proj")).trace()))
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(40, 40, generator=generator).double().numpy()
    inspected = Pairing(drawn, np.ones(40), np.ones((40, 40), dtype=bool), tuple(range(40)))
    assert inspected.accuracy < 0.15
    assert 0.3 < inspected.auc < 0.7


def test_a_layer_with_another_hidden_size_is_paired_with_no_other(tmp_path):
    def narrow(weights):
        for name, dim in (("up_proj", 0), ("gate_proj", 0), ("down_proj", 1)):
            key = f"model.layers.2.mlp.{name}.weight"
            weights[key] = weights[key].narrow(dim, 0, 100)

    pairings = inspect(str(changed(tmp_path, narrow))).pairings
    assert np.flatnonzero(pairings["mlp"].scores[2]).tolist() == [2]
    assert pairings["mlp"].scores[0, 1] == pytest.approx(scores(LLAMA).scores[0, 1], rel=0.3)
    assert pairings["mlp"].alike[2].tolist() == [layer == 2 for layer in range(6)]
    assert pairings["value_output"].alike.all()


def test_a_single_layer_has_nothing_to_be_paired_with(tmp_path):
    def keep_one(weights):
        for name in [name for name in weights if not name.startswith("model.layers.0.")]:
            del weights[name]

    inspected = inspect(str(changed(tmp_path, keep_one, num_hidden_layers=1)))
    assert inspected.pairings["mlp"] == "no two layers have matrices of equal shapes, so there is nothing to pair"


def test_an_unknown_matrix_is_reported_and_less_is_read_than_is_stored(tmp_path):
    extra = {"model.layers.0.mlp.extra.weight": torch.zeros(5, 96)}
    inspected = inspect(str(changed(tmp_path, lambda weights: weights.update(extra))))
    assert inspected.unclaimed == (*extra,)
    stored = load_file(tmp_path / "model" / WEIGHTS)
    assert inspected.bytes_stored == sum(tensor.nbytes for tensor in stored.values())
    assert 0.5 < inspected.bytes_read / inspected.bytes_stored < 1


@pytest.mark.parametrize("size", [1e25, float("nan")])
def test_products_that_leave_the_range_of_numbers_score_nothing_and_nobody_is_warned(tmp_path, size):
    model = tiny_model("DeepseekV3ForCausalLM", {})
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "kv_" in name and parameter.ndim == 2:
                parameter.mul_(size)
    model.save_pretrained(tmp_path)
    pairings = inspect(str(tmp_path)).pairings
    assert not pairings["value_output"].scores.any()
    assert pairings["mlp"].scores.any()
