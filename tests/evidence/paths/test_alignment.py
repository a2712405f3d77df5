"""Where every layer comes from: layers left out, repeated, shuffled, and layers that a base itself repeats."""

import numpy as np
import pytest

from hf_lineage.evidence.paths.alignment import in_order, moved, runs


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


def test_layers_of_its_own_do_not_mislead_the_others():
    origins = [0, 1, None, 2, None, 5]
    found = in_order(similarity(origins))
    assert [(number, found[number]) for number, origin in enumerate(origins) if origin is not None] == [
        (0, 0), (1, 1), (3, 2), (5, 5),
    ]  # fmt: skip


def test_order_tells_layers_apart_that_the_base_repeats():
    base = [0, 1, 2, 1, 2, 3]
    found = np.array([[float(one == other) for other in base] for one in base])
    assert found.argmax(axis=0).tolist() == [0, 1, 2, 1, 2, 5]
    assert in_order(found).tolist() == [0, 1, 2, 3, 4, 5]


def test_unrelated_layers_get_some_layer():
    assert in_order(np.zeros((3, 5))).shape == (5,)
    assert in_order(similarity([None] * 4)).shape == (4,)


def test_a_map_is_said_in_runs():
    origins = dict(enumerate([0, 1, 2, 3, 4, 2, 3, 4, 5]))
    assert [str(run) for run in runs(origins)] == ["layers 0-4 from layers 0-4", "layers 5-8 from layers 2-5"]
    assert [str(run) for run in runs({3: 1})] == ["layer 3 from layer 1"]
    assert not list(runs({}))


def test_only_layers_of_another_number_have_moved():
    assert not moved({0: 0, 4: 4})
    assert moved({0: 0, 2: 4})
