"""The parts on cases whose answer is known."""

import math

import numpy as np
import pytest
import torch

from benchmarks.paper.parts import laundering, models, scores
from benchmarks.paper.parts.cache import Cache, key

SHAPE = models.Shape(inputs=6, width=12, hidden=20, layers=3)
INPUTS = torch.randn(64, 6, generator=torch.Generator().manual_seed(3))


@pytest.fixture(scope="module")
def pair():
    """Two untrained networks with biases that matter."""
    random = torch.Generator().manual_seed(5)
    return models.initial(SHAPE, [1, 2]).changed(
        lambda bias: 0.1 * torch.randn(bias.shape, generator=random), only=("b_in", "b_out")
    )


def test_networks_side_by_side_say_what_each_says_alone(pair):
    together = models.outputs(pair, INPUTS)
    for number, network in enumerate(pair):
        assert torch.allclose(models.outputs(network, INPUTS)[0], together[number], atol=1e-6)
    assert torch.equal(models.joined(list(pair)).weights["w_in"], pair.weights["w_in"])


@pytest.mark.parametrize("name", ["P", "D_m", "D_s", "PD"])
def test_laundering_moves_weights_but_neither_function_nor_score(pair, name):
    edited = laundering.laundered(pair, name, 0, INPUTS)
    assert not torch.allclose(edited.weights["w_in"], pair.weights["w_in"])
    assert torch.allclose(models.outputs(edited, INPUTS), models.outputs(pair, INPUTS), atol=1e-4)
    clean, disguised = (scores.signature(networks[0].blocks) for networks in (pair, edited))
    assert scores.score(clean, disguised) == pytest.approx(1, abs=1e-6)
    assert not any(
        torch.equal(before, after) for (before, _), (after, _) in zip(pair[0].blocks, edited[0].blocks, strict=True)
    )


def test_the_gate_stops_an_edit_that_moves_the_function(pair):
    with pytest.raises(laundering.FunctionError, match="moved by"):
        laundering.preserved(models.outputs(pair[0], INPUTS), models.outputs(pair[1], INPUTS))
    with pytest.raises(laundering.FunctionError):
        laundering.preserved(torch.zeros(1), torch.tensor([math.nan]))


def test_an_uncentred_signature_is_of_the_product_itself(pair):
    exact = scores.signature(pair[0].blocks)
    products = torch.stack([w_out @ w_in for w_in, w_out in pair[0].blocks])
    assert np.allclose(scores.uncentred(exact).sketch, products, atol=1e-5)
    assert scores.trace_score(exact) == pytest.approx(
        float((products.diagonal(dim1=1, dim2=2).sum(1).abs() / products.norm(dim=(1, 2))).mean()), rel=1e-4
    )


def test_metrics_of_scores_that_can_be_counted():
    assert scores.auroc([3, 2], [1, 0]) == 1
    assert scores.auroc([1, 0], [1, 0]) == 0.5
    assert scores.auroc([0, 2], [1]) == 0.5
    assert scores.gap_z([2, 4], [0, 2]) == pytest.approx(2)
    assert scores.gap_z([1, 1], [0, 0]) == math.inf
    assert scores.spearman([1, 5, 9], [0, 0.5, 1]) == 1


def test_the_cache_keeps_values_by_what_they_depend_on(tmp_path):
    cache, made = Cache(tmp_path), []

    def make():
        made.append(1)
        return {"weights": torch.arange(3), "scores": [1.5]}

    for _ in range(2):
        value = cache.kept("things", [SHAPE, "a", range(3)], make)
    assert (len(made), value["scores"], value["weights"].tolist()) == (1, [1.5], [0, 1, 2])
    assert key([SHAPE, "a"]) != key([SHAPE, "b"])
    with pytest.raises(TypeError, match="cannot be part"):
        key(object())
