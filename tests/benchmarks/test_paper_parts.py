"""The parts of the experiments on cases whose answer is known."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import ortho_group
from transformers import LlamaForCausalLM

from benchmarks.paper.items import jacobians
from benchmarks.paper.parts import baselines, hiding, laundering, models, scores
from benchmarks.paper.parts.cache import Cache, key
from benchmarks.paper.parts.coupling import pairing
from benchmarks.paper.parts.examples import HUB
from benchmarks.paper.parts.language import documentation
from benchmarks.paper.parts.pairing import trace_scores
from benchmarks.paper.parts.scores import paired

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


def test_held_out_text_shares_no_paragraph_with_the_training_text():
    corpus = documentation()
    training, held_out = (bytes(text.tolist()).decode().split("\n\n") for text in (corpus.training, corpus.held_out))
    long = {part for part in held_out if len(part) > 60}
    assert long
    assert not long & set(training)


def test_trace_scores_of_orthogonal_matrices_lie_on_the_diagonal():
    turns = [torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(seed))).Q for seed in range(3)]
    scores = trace_scores(turns, [turn.T for turn in turns])
    assert np.diagonal(scores) == pytest.approx(8**0.5)
    assert paired(scores).accuracy == paired(scores).auc == 1


def test_a_pairing_is_that_of_the_products_written_out():
    random = torch.Generator().manual_seed(0)
    blocks = [(torch.randn(5, 4, generator=random), torch.randn(4, 5, generator=random)) for _ in range(3)]
    products = [[(w_out @ w_in).double() for w_in, _ in blocks] for _, w_out in blocks]
    expected = [[float(product.trace().abs() / product.norm()) for product in row] for row in products]
    found = pairing(blocks)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-5)
    assert found.signs.tolist() == [float(products[i][i].trace().sign()) for i in range(3)]


def test_identical_partners_find_each_other_and_strangers_do_not():
    random = torch.Generator().manual_seed(0)
    readers = [torch.randn(64, 16, generator=random) for _ in range(6)]
    assert pairing([(reader, -reader.mT) for reader in readers]).accuracy == 1
    assert pairing([(reader, readers[(n + 1) % 6].mT) for n, reader in enumerate(readers)]).accuracy == 0


def test_a_scaled_orthogonal_jacobian_does_not_deviate():
    turned = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(0))).Q
    assert jacobians.deviation(3 * turned - torch.eye(6)) == pytest.approx(0, abs=1e-6)
    assert jacobians.deviation(torch.diag(torch.tensor([1.0, -1.0]))) == pytest.approx(0.5**0.5)


def blocks(network):
    return baselines.arrays(network.blocks)


@pytest.mark.parametrize("method", baselines.METHODS.values())
def test_to_every_rival_a_model_is_most_like_itself(pair, method):
    itself, stranger = method(blocks(pair[0]), blocks(pair[0])), method(blocks(pair[0]), blocks(pair[1]))
    assert itself == pytest.approx(1 if itself > 0.5 else 0, abs=1e-5)
    assert stranger < itself


RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2000, 5))


@pytest.mark.parametrize("measure", [baselines.svcca, baselines.cka])
def test_representations_that_differ_by_a_rotation_are_the_same(measure):
    turned = 3 * X @ ortho_group.rvs(5, random_state=1) + 7
    assert measure(X, turned) == pytest.approx(1, abs=1e-6)
    assert measure(X, RANDOM.standard_normal((2000, 5))) < 0.1


def test_cka_of_half_a_representation_is_known():
    """White features, of which one half is shared: ‖YᵀX‖² = 2 n² by ‖XᵀX‖ ‖YᵀY‖ = 2 n² √2."""
    white = np.linalg.qr(X - X.mean(axis=0))[0]
    assert baselines.cka(white[:, :4], white[:, 2:4]) == pytest.approx(2 / (2 * 2**0.5), abs=1e-6)


def test_an_edit_that_moves_a_logit_is_refused():
    model = LlamaForCausalLM.from_pretrained(HUB / "acme" / "llama-base").double().eval()
    with pytest.raises(laundering.FunctionError, match="moved by"):
        hiding.moved(model, lambda model: model.lm_head.weight.data.mul_(1.001), torch.arange(48).view(2, 24))
