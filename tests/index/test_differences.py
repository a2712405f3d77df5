"""Differences of models from an ancestor: lengths that add up along a tree, and merges, which no tree holds."""

import numpy as np
import pytest

from hf_lineage.index.differences import join_neighbours, merges, nearest, products, simplify_tree

BASE, A, B = (0, 1.0), (1, 0.1), (2, 0.1)
# Four models: 0 and 1 on a node, 2 and 3 on another, at 2, 3, 4 and 1 from them, and 5 between the two nodes.
BY_HAND = np.array([[0, 5, 11, 8], [5, 0, 12, 9], [11, 12, 0, 5], [8, 9, 5, 0]], float)


def model(*parts):
    vector = np.zeros((2, 40, 1), np.float32)
    for direction, size in parts:
        vector[:, direction] += size
    return vector / np.linalg.norm(vector, axis=(1, 2), keepdims=True)


def test_a_merge_is_found_with_its_parents_and_an_intermediate_model_is_none():
    """At 1.0 both differences are added in full, and the four models are the corners of a square."""
    for share, parents in ((0.3, (1, 2)), (0.5, (1, 2)), (1.0, (1, 2)), (0.3, (1, 2, 3))):
        given = [(number, 0.1) for number in parents]
        merged = model(BASE, *((number, share * size) for number, size in given))
        models = [model(BASE), *(model(BASE, one) for one in given), merged, model(BASE, (5, 0.1))]
        (found, *_) = merges(products(models))
        assert (found.model, found.parents) == (len(given) + 1, parents)
    for further in (0.05, 0.1, 0.15):
        through = [model(BASE, A), model(BASE, A, (2, further)), model(BASE, A, (3, further))]
        assert merges(products([model(BASE), *through, model(BASE, (6, 0.1))])) == []


def test_trees_by_hand_are_found_and_siblings_stay_children_of_their_base():
    links = join_neighbours(BY_HAND)
    (one,), (other,) = links[0], links[2]
    assert [links[number] for number in range(4)] == [{one: 2}, {one: 3}, {other: 4}, {other: 1}]
    assert links[one][other] == links[other][one] == 5
    assert nearest(links, one, other, 4) == 2
    shared = 0.3 * np.sqrt(0.0108 * 0.0515)
    distances = np.array([[0, 0.0108, 0.0515, 0.01], [0.0108, 0, 0.0623 - 2 * shared, 0.0208],
                          [0.0515, 0.0623 - 2 * shared, 0, 0.0615], [0.01, 0.0208, 0.0615, 0]])  # fmt: skip
    assert set(tree(distances, preferred=[3, 0, 0, 0])[0]) == {1, 2, 3}


def tree(distances, preferred=(), barred=()):
    count = len(distances)
    return simplify_tree(join_neighbours(distances), count, preferred or [0] * count, barred or [False] * count)


def test_an_intermediate_stands_between_and_none_that_declares_another_base():
    distances = np.array([[0, 1, 2, 2, 1], [1, 0, 1, 1, 2], [2, 1, 0, 2, 3], [2, 1, 2, 0, 3], [1, 2, 3, 3, 0]], float)
    links = tree(distances)
    assert (set(links[0]), set(links[1])) == ({1, 4}, {0, 2, 3})
    steps = np.array([0.1, 2, 3])
    distances = steps[:, None] + steps[None, :] - 2 * np.diag(steps)
    assert set(tree(distances)) == {0, 1, 2}
    assert tree(distances, barred=[True] * 3)[3] == pytest.approx({0: 0.1, 1: 2, 2: 3})
