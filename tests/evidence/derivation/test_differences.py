"""Differences of models from an ancestor: lengths that add up along a tree, and merges, which no tree holds."""

import numpy as np
import pytest

from hf_lineage.evidence.derivation.differences import along, distances, merges, products


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
