"""A key tells relatives from others by a few bytes, and is not made of the coordinates on which they are tested."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.evidence.paths.comparison import compare_paths
from hf_lineage.index.key import BITS, for_testing, halves, key_of, similarities


def cosine(one, other):
    return float(similarities(key_of(one.paths["mlp"]), key_of(other.paths["mlp"])[None])[0])


def test_the_cosine_of_two_keys_is_about_the_score(signatures):
    base = signatures["acme/llama-base"]
    for name in ("fern/llama-finetune-a", "heron/llama-pruned-50", "moss/llama-continued", "magpie/llama-grafted"):
        score = compare_paths(base.paths["mlp"], signatures[name].paths["mlp"]).score
        assert cosine(base, signatures[name]) == pytest.approx(score, abs=0.1)


def test_independent_models_have_unlike_keys(signatures):
    base = signatures["acme/llama-base"]
    for name in ("otter/llama-independent", "heron/llama-distilled", "magpie/llama-liar"):
        assert abs(cosine(base, signatures[name])) < 0.15


def test_a_key_does_not_depend_on_the_order_of_the_layers(signatures):
    path = signatures["acme/llama-base"].paths["mlp"]
    assert np.unpackbits(key_of(path) ^ key_of(path.select([3, 1, 0, 5, 4, 2]))).sum() < 8


def test_permuting_the_coordinates_of_the_test_leaves_the_key_as_it_is(signatures):
    path = signatures["acme/llama-base"].paths["mlp"]
    _, tested = halves(96)
    order = np.arange(96)
    order[tested] = np.random.default_rng(0).permutation(tested)
    permuted = replace(path, corner=path.corner[:, order][:, :, order])
    assert not np.array_equal(permuted.corner, path.corner)
    assert np.array_equal(key_of(permuted), key_of(path))


@pytest.mark.parametrize("size", [2, 7, 96, 128])
def test_every_coordinate_is_in_one_half(size):
    key, test = halves(size)
    assert sorted([*key, *test]) == list(range(size))
    assert len(key) == size // 2


def test_a_test_is_made_of_the_other_half(signatures):
    whole = signatures["acme/llama-base"]
    part = for_testing(whole, "mlp")
    _, chosen = halves(96)
    assert np.array_equal(part.paths["mlp"].corner, whole.paths["mlp"].corner[:, chosen][:, :, chosen])
    assert np.array_equal(part.paths["mlp"].sketch, whole.paths["mlp"].sketch)


def test_a_layer_without_weights_adds_nothing(signatures):
    path = signatures["acme/llama-base"].paths["mlp"]
    corner = path.corner.copy()
    corner[2] = 0
    silent = key_of(replace(path, corner=corner))
    assert np.array_equal(silent, key_of(path.select([0, 1, 3, 4, 5])))


def test_similarities_of_many_keys_are_those_of_each():
    keys = np.random.default_rng(1).integers(0, 256, (40_000, BITS // 8), dtype=np.uint8)
    cosines = similarities(keys[7], keys)
    assert cosines[7] == 1
    assert cosines[[0, 39_999]] == pytest.approx([similarities(keys[7], keys[[at]])[0] for at in (0, 39_999)])
    assert len(similarities(keys[7], keys[:0])) == 0
