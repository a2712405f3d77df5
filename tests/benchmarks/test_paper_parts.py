"""The parts on cases whose answer is known."""

import math

import numpy as np
import pytest
import torch

from benchmarks.paper.parts import laundering, metrics, models, scores, training
from benchmarks.paper.parts import transformations as edits
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


def test_a_network_is_a_sum_of_branches_with_skips_and_a_chain_without(pair):
    network = pair[0].having(w_out=torch.zeros_like(pair[0].weights["w_out"]), b_out=torch.zeros(1, 3, 12))
    first, *_, last = models.streams(network, INPUTS)
    assert torch.equal(first, last)
    plain = models.Networks(models.Shape(**{**SHAPE.__dict__, "skip": False}), network.weights)
    assert not list(models.streams(plain, INPUTS))[-1].any()


@pytest.mark.parametrize("scheme", models.SCHEMES)
def test_every_scheme_gives_a_seed_the_same_weights_whatever_stands_beside_it(scheme):
    alone, beside = models.initial(SHAPE, [4], scheme), models.initial(SHAPE, [9, 4], scheme)
    assert torch.equal(alone.weights["w_in"], beside[1].weights["w_in"])
    assert alone.weights["w_in"].std() > 0


def test_training_lowers_the_loss_and_is_the_same_every_time():
    task = training.Task(samples=128, inputs=6)
    inputs, targets = task.data()
    start, schedule = models.initial(SHAPE, [0, 1]), training.Schedule(epochs=40, batch=16)
    once, again = (training.train(start, inputs, targets, schedule, [0, 1]) for _ in range(2))
    assert torch.equal(once.weights["w_out"], again.weights["w_out"])
    assert (training.losses(once, inputs, targets) < training.losses(start, inputs, targets) / 2).all()


def test_another_task_has_other_targets_and_other_data_of_a_task_the_same_function():
    task, other = training.Task(seed=1), training.Task(seed=2)
    inputs, targets = task.data()
    assert torch.equal(task.function(inputs), targets)
    assert not torch.allclose(other.function(inputs), targets)
    assert not torch.equal(task.data(stream=1)[0], inputs)
    assert 0.3 < targets.var() < 3


def test_a_step_may_change_gradients():
    def stop(_, network):
        for tensor in network.weights.values():
            tensor.grad.zero_()

    start = models.initial(SHAPE, [0])
    inputs, targets = training.Task(samples=64, inputs=6).data()
    trained = training.train(start, inputs, targets, training.Schedule(2, decay=0), [0], stop)
    assert torch.equal(trained.weights["w_in"], start.weights["w_in"])


def test_students_learn_from_targets_and_teacher(pair):
    targets = torch.zeros(64, 1)
    teacher = models.outputs(pair[0], INPUTS)[0]
    assert torch.allclose(training.soft_targets(pair[0], INPUTS, targets), teacher / 2)
    assert torch.allclose(training.soft_targets(pair[0], INPUTS, targets, share=1), targets)


def test_pruning_sets_the_smallest_to_zero():
    matrix = torch.tensor([[4.0, -1.0, 0.5], [-3.0, 2.0, 6.0]])
    assert edits.pruned(matrix, 0.5).tolist() == [[4.0, 0, 0], [-3.0, 0, 6.0]]
    assert torch.equal(edits.pruned(matrix, 0), matrix)


def test_quantization_leaves_so_many_values_and_moves_none_by_more_than_half_a_step():
    matrix = torch.randn(40, 40, generator=torch.Generator().manual_seed(0))
    coarse = edits.quantized(matrix, 16)
    assert len(coarse.unique()) <= 16
    assert (coarse - matrix).abs().max() <= 0.5001 * (matrix.max() - matrix.min()) / 15
    assert torch.equal(edits.quantized(torch.ones(2, 2), 16), torch.ones(2, 2))


def test_noise_has_the_size_asked_for():
    matrix = 3 * torch.randn(200, 200, generator=torch.Generator().manual_seed(0))
    added = edits.noisy(matrix, 0.1, torch.Generator().manual_seed(1)) - matrix
    assert float(added.std() / matrix.std()) == pytest.approx(0.1, rel=0.02)


def test_edits_of_each_matrix_leave_biases_alone(pair):
    halved = edits.each_matrix(pair, lambda matrix: matrix / 2)
    assert torch.equal(halved.weights["w_out"], pair.weights["w_out"] / 2)
    assert torch.equal(halved.weights["b_in"], pair.weights["b_in"])


def test_grafts_and_merges_go_from_the_donor_to_the_reference(pair):
    reference, donor = pair
    graft = edits.grafted(reference, donor, [1])
    assert [torch.equal(a, b) for (a, _), (b, _) in zip(graft.blocks, reference.blocks, strict=True)] == [0, 1, 0]
    assert torch.equal(edits.merged(reference, donor, 0).weights["w_in"], donor.weights["w_in"])
    assert torch.allclose(edits.merged(reference, donor, 1).weights["w_in"], reference.weights["w_in"])


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
    assert metrics.auroc([3, 2], [1, 0]) == 1
    assert metrics.auroc([1, 0], [1, 0]) == 0.5
    assert metrics.auroc([0, 2], [1]) == 0.5
    assert metrics.gap_z([2, 4], [0, 2]) == pytest.approx(2)
    assert metrics.gap_z([1, 1], [0, 0]) == math.inf
    assert metrics.spearman([1, 5, 9], [0, 0.5, 1]) == 1


def test_no_scores_have_a_wider_gap_than_their_auroc_allows():
    random = np.random.default_rng(0)
    for _ in range(200):
        related, unrelated = random.exponential(1, 20) + 1, random.standard_normal(20) * random.uniform(0.1, 2)
        gap = metrics.gap_z(related, unrelated)
        if gap > 0:
            assert metrics.auroc(related, unrelated) >= metrics.least_auroc(gap) - 1e-9


def test_the_cache_tells_what_it_makes_and_nothing_of_what_it_has(tmp_path):
    told = []
    cache = Cache(tmp_path, lambda what, seconds: told.append((what, seconds >= 0)))
    for _ in range(2):
        cache.kept("things", "a", list)
        cache.kept_folder("folders", "b", lambda folder: (folder / "x").touch())
    assert told == [("things", True), ("folders", True)]


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
