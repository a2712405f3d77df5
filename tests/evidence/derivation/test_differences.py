"""Differences of models from an ancestor: lengths that add up along a tree, and merges, which no tree holds."""

import numpy as np
import pytest

from hf_lineage.evidence.derivation.differences import along, combined, distances, merges, products


def model(*parts):
    """A sketch of two layers of norm 1: the sum of some directions, each of a size."""
    vector = np.zeros((2, 40, 1), np.float32)
    for direction, size in parts:
        vector[:, direction] += size
    return vector / np.linalg.norm(vector, axis=(1, 2), keepdims=True)


BASE = (0, 1.0)
A, B = (1, 0.1), (2, 0.1)


def test_distances_add_up_along_a_path_however_far_it_leads():
    gram = products([model(BASE), model(BASE, (1, 0.8)), model(BASE, (2, 1.2))])
    apart = distances(gram)
    assert apart[1, 2] == pytest.approx(apart[0, 1] + apart[0, 2])
    assert np.array_equal(np.diag(apart), np.zeros(3))


def test_siblings_differ_from_their_base_in_directions_of_their_own():
    cosines = along(products([model(BASE), model(BASE, A), model(BASE, B), model(BASE, A, (3, 0.05))]), 0)
    assert cosines[1, 2] == pytest.approx(0, abs=0.02)
    assert cosines[1, 3] > 0.8
    assert not cosines[0].any()


@pytest.mark.parametrize("share", [0.3, 0.5, 1.0])
def test_a_merge_of_two_is_found_with_its_parents(share):
    """At 1.0 both differences are added in full, and the four models are the corners of a square."""
    merged = model(BASE, (1, 0.1 * share), (2, 0.1 * share))
    found = merges(products([model(BASE), model(BASE, A), model(BASE, B), merged, model(BASE, (5, 0.1))]))
    assert (found[0].model, found[0].parents) == (3, (1, 2))


def test_a_merge_of_three_has_three_parents():
    merged = model(BASE, (1, 0.03), (2, 0.03), (3, 0.03))
    found = merges(products([model(BASE), model(BASE, A), model(BASE, B), model(BASE, (3, 0.1)), merged]))
    assert (found[0].model, found[0].parents) == (4, (1, 2, 3))


@pytest.mark.parametrize("further", [0.05, 0.1, 0.15])
def test_an_intermediate_model_is_no_merge_of_those_that_come_through_it(further):
    through = [model(BASE, A), model(BASE, A, (2, further)), model(BASE, A, (3, further))]
    assert merges(products([model(BASE), *through, model(BASE, (6, 0.1))])) == []


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.1), (0.3, 0.3), (0.6, 0.3, 0.1)])
def test_what_each_relative_gave_is_found_with_its_interval(shares):
    stream = np.random.default_rng(0)
    ancestor = stream.normal(size=(6, 40, 8))
    differences = stream.normal(size=(len(shares), 6, 40, 8)) * 0.1
    model = ancestor + np.tensordot(shares, differences, 1) + stream.normal(size=ancestor.shape) * 0.01
    fit = combined(model, ancestor, [ancestor + difference for difference in differences])
    assert np.all(np.abs(fit.weights - shares) <= np.maximum(fit.errors, 0.01))
    assert np.all(fit.errors < 0.1)
    assert 0.9 < fit.explained < 1


@pytest.mark.parametrize("moved", [0.05, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.3, 0.7), (0.8, 0.4), (0.2, 0.3, 0.5)])
def test_the_interval_holds_what_each_gave_to_the_matrices_however_far_they_moved(shares, moved):
    """The sketches are of products, which are not merged where their factors are."""
    stream = np.random.default_rng(0)
    factors = stream.normal(size=(2, 6, 48, 48))
    differences = stream.normal(size=(len(shares), *factors.shape)) * moved

    def product(both):
        whole = both[0] @ both[1]
        return whole / np.linalg.norm(whole, axis=(1, 2), keepdims=True)

    merged = factors + np.tensordot(shares, differences, 1)
    fit = combined(product(merged), product(factors), [product(factors + difference) for difference in differences])
    assert np.all(np.abs(fit.weights - shares) <= fit.errors)


def test_one_layer_has_no_interval_and_a_copy_of_the_ancestor_is_nothing():
    ancestor, other = np.random.default_rng(0).normal(size=(2, 1, 40, 8))
    fit = combined(ancestor, ancestor, [other])
    assert not np.isfinite(fit.errors).any()
    assert (fit.weights.round(9).tolist(), fit.explained) == ([0.0], 0.0)
