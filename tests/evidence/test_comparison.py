"""Similarity, gate, assignment and score are what the paper's equations say, and so does docs/reference.py."""

import itertools
import re
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from hf_lineage import RECIPES, Options, compare
from hf_lineage.evidence.comparison import assign, compare_paths, gate, in_order, scores
from hf_lineage.signature.values import PathSignature
from tests.models import WEIGHTS, fine_tuned, spoil, tiny_gpt2, tiny_llama

GENERATOR = np.random.default_rng(0)
ORIGINS = ["012345", "0145", "5", "012342345", "012215", "333333", "531024"]


def path_signature(sketch, trace=1.0, norm=1.0):
    sketch = sketch.astype(np.float32)
    trace, norm = (np.broadcast_to(np.asarray(one, float), len(sketch)) for one in (trace, norm))
    return PathSignature(sketch, sketch[:, :4, :4], trace, norm)


def random_layers(layers=5, width=12, columns=8):
    return GENERATOR.standard_normal((layers, width, columns))


class ThreeAtATime:
    """A sketch that says it has room for three of its columns."""

    room = 3

    def __init__(self, sketch):
        self.sketch, self.shape = sketch, sketch.shape

    def columns(self, chosen):
        assert len(range(self.shape[2])[chosen]) <= self.room
        return self.sketch[:, :, chosen]


@pytest.mark.parametrize("width", [7, 9])
def test_residuals_too_large_for_memory_are_compared_some_columns_at_a_time(width):
    whole = [path_signature(random_layers(width=width, columns=width)) for _ in range(2)]
    large = [replace(path, sketch=ThreeAtATime(path.sketch)) for path in whole]
    expected = compare_paths(*whole).similarity
    for a, b in ((large[0], large[1]), (large[0], whole[1]), (whole[0], large[1])):
        np.testing.assert_allclose(compare_paths(a, b).similarity, expected, atol=1e-12)


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [3, 0, 4, 1, 2]])
def test_a_model_scores_one_against_itself_in_whatever_order_its_layers_are(order):
    layers = random_layers()
    same = compare_paths(path_signature(layers), path_signature(layers[order]))
    assert same.score == pytest.approx(1.0, abs=1e-12)
    assert [order[partner] for partner in same.pairs[1]] == [0, 1, 2, 3, 4]
    assert same.standard_error == pytest.approx(0.0, abs=1e-7)


def test_the_gate_is_the_papers_and_an_unusable_layer_counts_as_zero():
    a, b = path_signature(random_layers(2), trace=[4, 2]), path_signature(random_layers(2), trace=[-1, 8])
    assert gate(a, b).tolist() == [[0.5, 1.0], [0.5, 1.0]]
    assert gate(b, a).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    layers = random_layers(4)
    broken = np.where(np.arange(4)[:, None, None] == 2, 0, layers)
    comparison = compare_paths(path_signature(layers), path_signature(broken, norm=[1, 1, 0, 1]))
    assert comparison.usable.tolist() == [True, True, False, True]
    assert comparison.score == pytest.approx(0.75)
    nothing = path_signature(np.zeros((3, 12, 8)), norm=[0, np.nan, 0])
    comparison = compare_paths(nothing, nothing)
    assert (comparison.score, comparison.usable.any()) == (0.0, False)


def test_the_standard_error_is_the_scatter_of_the_score_over_probes():
    a, b = GENERATOR.standard_normal((2, 3, 40, 40))
    b = a + 2 * b
    scores, errors = [], []
    for _ in range(200):
        probes = GENERATOR.choice([-1.0, 1.0], (40, 16)) / 4
        comparison = compare_paths(path_signature(a @ probes), path_signature(b @ probes))
        scores.append(comparison.score)
        errors.append(comparison.standard_error)
    assert np.mean(errors) == pytest.approx(np.std(scores), rel=0.2)


def test_the_scores_of_many_models_are_those_of_comparing_each():
    base, dead = random_layers(columns=4), random_layers(columns=4)
    dead[2] = 0
    others = [base + noise * random_layers(columns=4) for noise in (0.0, 0.1, 1.0, 30.0)]
    others += [random_layers(layers, columns=4) for layers in (3, 5, 8)]
    of_base, *paths = (path_signature(one, trace=1 + GENERATOR.random(len(one))) for one in (base, *others))
    paths.append(path_signature(dead, norm=[1, 1, 0, 1, 1]))
    expected = [compare_paths(of_base, path).score for path in paths]
    np.testing.assert_allclose(list(scores(of_base, paths)), expected, atol=1e-6)
    assert expected[0] == pytest.approx(1.0)


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (4, 7), (7, 4)])
@pytest.mark.parametrize("seed", range(5))
def test_no_pairing_has_a_larger_sum_than_the_one_that_is_chosen(shape, seed):
    """By trying them all, both where the best partners of all rows differ and where rows compete."""
    gated = np.random.default_rng(seed).random(shape)
    gated += np.eye(*shape) * (seed % 2) * 2
    few, many = sorted(shape)
    rows, columns = assign(gated)
    assert len(set(rows.tolist())) == len(set(columns.tolist())) == few
    turned = gated if shape[0] <= shape[1] else gated.T
    best = max(sum(turned[range(few), order]) for order in itertools.permutations(range(many), few))
    assert gated[rows, columns].sum() == pytest.approx(best)


def test_every_layer_finds_its_origin_and_order_tells_repeated_ones_apart():
    for origins in ([*map(int, layers)] for layers in ORIGINS):
        similarity = np.random.default_rng(0).uniform(-0.05, 0.05, (6, len(origins)))
        similarity[origins, range(len(origins))] = 0.6
        assert in_order(similarity).tolist() == origins
    base = [0, 1, 2, 1, 2, 3]
    found = np.array([[float(one == other) for other in base] for one in base])
    assert found.argmax(axis=0).tolist() == [0, 1, 2, 1, 2, 5]
    assert in_order(found).tolist() == [0, 1, 2, 3, 4, 5]


LAYERS = 6
REFERENCE = runpy.run_path(str(Path(__file__).parents[2] / "docs/reference.py"))["score"]
PAPER = Options(recipe=replace(RECIPES["paper"], probes=None), permutations=99, seed=0)


def layers_of(folder):
    """What writes and what reads in the layers of a model; a GPT-2 stores its matrices the other way round."""
    weights = load_file(folder / WEIGHTS)
    if "h.0.mlp.c_fc.weight" in weights:
        return [[weights[f"h.{layer}.mlp.{name}.weight"].T for name in ("c_proj", "c_fc")] for layer in range(LAYERS)]
    name = "model.layers.{}.mlp.{}_proj.weight"
    return [[weights[name.format(layer, role)] for role in ("down", "up")] for layer in range(LAYERS)]


def score(a, b):
    (row,) = compare(str(a), str(b), PAPER).rows
    return row.verdict.evidence["mlp"].comparison.score


@pytest.mark.parametrize("make", [tiny_llama, tiny_gpt2])
def test_descendants_and_an_independent_model_have_the_score_of_the_reference(make, tmp_path):
    base, other = (make(tmp_path / str(seed), layers=LAYERS, seed=seed) for seed in (0, 1))
    near, far = (fine_tuned(base, tmp_path / f"{noise}", noise=noise) for noise in (0.1, 1.0))
    expected = [REFERENCE(layers_of(base), layers_of(model)) for model in (near, far, other)]
    assert min(expected[:2]) > 0.1
    assert [score(base, model) for model in (near, far, other)] == pytest.approx(expected, abs=1e-5)


def test_layers_in_any_order_or_paired_by_the_gate_have_the_score_of_the_reference(tmp_path):
    """The reference's gate is measured from its weakest layer, so the score depends on which model is the reference."""

    def reverse(tensors):
        for name, tensor in dict(tensors).items():
            tensors[re.sub(r"(?<=layers\.)\d+", lambda number: str(LAYERS - 1 - int(number[0])), name)] = tensor

    def close(tensors):
        """Let every product hold more of the identity than random weights do, so that the gate closes."""
        for name in [name for name in tensors if name.endswith("up_proj.weight")]:
            tensors[name] += 0.5 * tensors[name.replace("up_proj", "down_proj")].T

    base, other = (tiny_llama(tmp_path / str(seed), seed, LAYERS) for seed in (0, 1))
    child = spoil(fine_tuned(base, tmp_path / "child"), reverse)
    expected = REFERENCE(layers_of(base), layers_of(child)[::-1])
    assert expected > 0.5
    assert score(base, child) == pytest.approx(expected, abs=1e-5)
    spoil(base, close)
    forward, backward = (REFERENCE(layers_of(a), layers_of(b)) for a, b in ((base, other), (other, base)))
    assert forward != pytest.approx(backward, abs=1e-3)
    assert [score(base, other), score(other, base)] == pytest.approx([forward, backward], abs=1e-5)
