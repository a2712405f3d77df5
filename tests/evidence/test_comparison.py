"""Similarity, gate, assignment and score are what the paper's equations say."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.evidence.comparison import (
    assign,
    compare_paths,
    gate,
    in_order,
    scores,
)
from hf_lineage.signature.values import PathSignature

GENERATOR = np.random.default_rng(0)


def path_signature(sketch, trace=None, norm=None):
    layers = len(sketch)
    return PathSignature(
        sketch=sketch.astype(np.float32),
        corner=sketch[:, :4, :4].astype(np.float32),
        trace=np.ones(layers) if trace is None else np.asarray(trace, float),
        norm=np.ones(layers) if norm is None else np.asarray(norm, float),
    )


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


def test_a_model_scores_one_against_itself_layer_by_layer():
    signature = path_signature(random_layers())
    same = compare_paths(signature, signature)
    assert same.score == pytest.approx(1.0, abs=1e-12)
    assert same.assignment.tolist() == [0, 1, 2, 3, 4]
    assert same.standard_error == pytest.approx(0.0, abs=1e-7)


def test_reordered_layers_are_found_again():
    layers, order = random_layers(), [3, 0, 4, 1, 2]
    comparison = compare_paths(path_signature(layers), path_signature(layers[order]))
    assert comparison.score == pytest.approx(1.0)
    assert [order[partner] for partner in comparison.assignment] == [0, 1, 2, 3, 4]


def test_the_gate_is_the_papers_with_the_references_weakest_layer_as_threshold():
    a, b = path_signature(random_layers(2), trace=[4, 2]), path_signature(random_layers(2), trace=[-1, 8])
    assert gate(a, b).tolist() == [[0.5, 1.0], [0.5, 1.0]]
    assert gate(b, a).tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_an_unusable_layer_counts_as_zero_and_is_marked():
    layers = random_layers(4)
    broken = layers.copy()
    broken[2] = 0
    comparison = compare_paths(path_signature(layers), path_signature(broken, norm=[1, 1, 0, 1]))
    assert comparison.usable.tolist() == [True, True, False, True]
    assert comparison.score == pytest.approx(0.75)


def test_two_models_without_a_single_usable_layer_still_compare():
    nothing = path_signature(np.zeros((3, 12, 8)), norm=[0, np.nan, 0])
    comparison = compare_paths(nothing, nothing)
    assert comparison.score == 0.0
    assert not comparison.usable.any()


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


def drawn(layers=5, width=12, columns=4, seed=0, beside=None, noise=1.0):
    """The signature of a path made of random numbers, or of another's with noise on it."""
    random = np.random.default_rng(seed)
    sketch, corner = (random.standard_normal(shape, np.float32) for shape in ((layers, width, columns), (layers, 6, 6)))
    if beside is not None:
        sketch = beside.sketch + noise * sketch
    trace = 1 + random.random(layers)
    return PathSignature(sketch=sketch, corner=corner, trace=trace, norm=np.full(layers, 5.0))


def test_the_scores_of_many_models_are_those_of_comparing_each():
    base = drawn()
    dead = drawn(seed=8)
    dead.sketch[2], dead.corner[2], dead.norm[2] = 0, 0, 0
    others = [
        *(drawn(seed=seed, beside=base, noise=noise) for seed, noise in enumerate((0.0, 0.1, 1.0, 30.0), 1)),
        *(drawn(layers=layers, seed=9) for layers in (3, 5, 8)),
        dead,
    ]
    expected = [compare_paths(base, other).score for other in others]
    np.testing.assert_allclose(list(scores(base, others)), expected, atol=1e-6)
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


def similarity(origins, layers=6, kept=0.6, noise=0.05):
    """What a candidate whose layers come from these of a base would show; None is a layer of its own."""
    found = np.random.default_rng(0).uniform(-noise, noise, (layers, len(origins)))
    for number, origin in enumerate(origins):
        if origin is not None:
            found[origin, number] = kept
    return found


@pytest.mark.parametrize(
    "origins",
    [
        [0, 1, 2, 3, 4, 5],
        [0, 1, 4, 5],
        [5],
        [0, 1, 2, 3, 4, 2, 3, 4, 5],
        [0, 1, 2, 2, 1, 5],
        [3, 3, 3, 3, 3, 3],
        [5, 3, 1, 0, 2, 4],
    ],
)
def test_every_layer_finds_its_origin(origins):
    assert in_order(similarity(origins)).tolist() == origins


def test_order_tells_layers_apart_that_the_base_repeats():
    base = [0, 1, 2, 1, 2, 3]
    found = np.array([[float(one == other) for other in base] for one in base])
    assert found.argmax(axis=0).tolist() == [0, 1, 2, 1, 2, 5]
    assert in_order(found).tolist() == [0, 1, 2, 3, 4, 5]
