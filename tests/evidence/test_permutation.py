"""The permutation null is exact: p-values are uniform over pairs that share nothing, and small over pairs that do."""

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import binomtest, kstest

from hf_lineage.architecture.registry import factorizations, registry_root
from hf_lineage.errors import RegistryError
from hf_lineage.evidence import permutation as module
from hf_lineage.evidence.comparison import compare_paths
from hf_lineage.evidence.p_values import ends, published_null
from hf_lineage.evidence.permutation import permutation_null, scores, sequential_nulls
from hf_lineage.signature.recipe import RECIPES, random_stream
from hf_lineage.signature.values import PathSignature
from tests.example_evidence import null as made
from tests.networks import LAYERS, WIDTH, ordered, padded, principal, signatures

SIGNIFICANCE = 0.001
"""Of the tests of the test: a right implementation fails each once in a thousand seeds, and the seed is fixed."""
NETWORKS, FEW_NETWORKS = 240, 40
"""How many are trained to show a distribution, which long tests do, and for all else."""
PAIRS = 300
ARRANGEMENTS = {"alike": None, "padded": padded, "ordered": ordered, "principal axes": principal}


def sequential_null(a, b, first, seed):
    (null,) = sequential_nulls({"mlp": (a, b)}, first, seed).values()
    return null


@pytest.fixture(scope="module")
def independent():
    return signatures(FEW_NETWORKS, RECIPES["robust"])


@pytest.fixture(scope="module")
def many():
    return signatures(NETWORKS, RECIPES["robust"])


ARRANGED = {
    "robust": ("robust", lambda a, b: (a, b), permutation_null),
    "paper": ("paper", lambda a, b: (a, b), permutation_null),
    "a shallow base": ("robust", lambda a, b: (a.select([0, LAYERS - 1]), b), permutation_null),
    "a shallow candidate": ("robust", lambda a, b: (a, b.select([0, LAYERS - 1])), permutation_null),
    "in sequence": ("robust", lambda a, b: (a, b), sequential_null),
}


@pytest.mark.long
@pytest.mark.parametrize(("recipe", "arrange", "test"), ARRANGED.values(), ids=ARRANGED)
def test_p_values_of_independent_pairs_are_uniform(recipe, arrange, test):
    models = signatures(NETWORKS, RECIPES[recipe])
    pairs = zip(models[::2], models[1::2], strict=True)
    p_values = [test(*arrange(*pair), 199, seed).p_value for seed, pair in enumerate(pairs)]
    assert kstest(p_values, "uniform").pvalue > SIGNIFICANCE
    assert 0.4 < np.mean(p_values) < 0.6


@pytest.mark.long
def test_alpha_of_one_percent_rejects_about_one_percent_of_independent_pairs(many):
    pairs = [(i, (i + step) % NETWORKS) for step in range(1, 7) for i in range(NETWORKS)]
    rejected = sum(permutation_null(many[i], many[j], 99, seed).p_value <= 0.01 for seed, (i, j) in enumerate(pairs))
    assert binomtest(rejected, len(pairs), 0.01).pvalue > SIGNIFICANCE
    assert rejected > 0


def test_a_model_against_itself_reaches_the_smallest_p_and_the_effect_is_0_by_chance(independent):
    null = permutation_null(independent[3], independent[3], 999, seed=0)
    assert (null.p_value, null.observed, null.effect) == pytest.approx((0.001, 1, 1))
    assert null.z > 10
    nulls = sequential_nulls(beside(independent[3], independent[3]), 999, 0)
    assert {path: null.p_over_paths for path, null in nulls.items()} == pytest.approx(dict.fromkeys(nulls, 0.001))
    assert {null.correction for null in nulls.values()} == {"Westfall and Young 1993"}
    pairs = [(independent[number], independent[number + 1]) for number in range(0, FEW_NETWORKS, 2)]
    nulls = [permutation_null(a, b, 199, seed) for seed, (a, b) in enumerate(pairs)]
    picked = np.mean([null.observed for null in nulls])
    assert picked > 0.007, "the pairing of layers picks what is alike"
    assert np.mean([null.effect for null in nulls]) < picked / 2
    assert made(1.0, np.ones(99), coordinates=1).effect == 0.0
    for observed in (float("nan"), -float("inf")):
        null = made(observed, np.zeros(99), first=99)
        assert (null.permuted.reach_count, null.p_value) == (99, 1.0)


def centred(model, matrix=None):
    """A model of its test coordinates alone, its blocks as the matrix moves them, less their share in span{I, 11ᵀ}."""
    size = model.corner.shape[1]
    moved = model.corner.astype(float) if matrix is None else matrix @ model.corner.astype(float) @ matrix.T
    mean = np.eye(size) - 1 / size
    left = mean @ moved @ mean
    left -= np.trace(left, axis1=1, axis2=2)[:, None, None] / (size - 1) * mean
    return replace(model, sketch=left.astype(np.float32))


def test_every_score_is_that_of_the_moved_model_compared_anew(independent):
    a, b = independent[:2]
    null = permutation_null(a, b, 40, 5)
    orders = np.argsort(random_stream("permutations 5").random_raw(40 * WIDTH).reshape(40, WIDTH), axis=1)
    bits = random_stream("signs 5").random_raw(40)[:, None] >> np.arange(WIDTH, dtype=np.uint64) & np.uint64(1)
    moves = {"permuted": np.eye(WIDTH)[orders], "flipped": [np.diag(2.0 * one - 1) for one in bits]}
    for half, matrices in moves.items():
        expected = [compare_paths(centred(a), centred(b, matrix)).score for matrix in matrices]
        np.testing.assert_allclose(getattr(null, half).scores, expected, atol=1e-6)
        unmoved = compare_paths(centred(a), centred(b)).score
        assert getattr(null, half).observed == pytest.approx(unmoved, abs=1e-6)


@pytest.mark.parametrize("size", [3, 8, 31])
@pytest.mark.parametrize("layers", [1, 2, 7, 33])
def test_permutations_that_change_nothing_are_ties(layers, size):
    corners = np.random.default_rng(size).standard_normal((2, layers, size, size)).astype(np.float32)
    corners[1] = corners[1, :, :1, :1] + corners[1, :, 1:2, 1:2] * np.eye(size, dtype=np.float32)
    a, b = (PathSignature(corner, corner, *[np.ones(layers)] * 2) for corner in corners)
    assert permutation_null(a, b, 99, 0).p_value == 1.0


def test_permutations_in_sequence_are_the_first_of_a_longer_null(independent):
    others = (*independent[4:8], independent[3])
    for seed, other in enumerate(others):
        null = sequential_null(independent[3], other, 99, seed)
        for half in (null.permuted, null.flipped):
            fixed = permutation_null(independent[3], other, len(half.scores), seed)
            long = fixed.permuted if half is null.permuted else fixed.flipped
            np.testing.assert_array_equal(half.scores, long.scores)
            assert ends(len(half.scores), half.reach_count, 99)
    assert (len(null.scores), null.p_value) == (99, 0.01)


@pytest.mark.parametrize("batch", [1, 7, 1024])
def test_what_is_tried_at_a_time_does_not_move_the_end(independent, monkeypatch, batch):
    expected = [sequential_null(independent[0], other, 39, 5) for other in independent[1:6]]
    monkeypatch.setattr(module, "BATCHES", (batch, 2 * batch))
    for other, whole in zip(independent[1:6], expected, strict=True):
        null = sequential_null(independent[0], other, 39, 5)
        assert null.p_value == whole.p_value
        np.testing.assert_array_equal(null.scores, whole.scores)
        np.testing.assert_array_equal(null.flipped.scores, whole.flipped.scores)


def beside(a, b):
    """Three paths that go together: the products, their squares, and the products of some layers."""
    squared = (replace(path, corner=path.corner @ path.corner) for path in (a, b))
    return {"mlp": (a, b), "mlp_gate": tuple(squared), "value_output": (a.select([0, 2, 3]), b.select([1, 2]))}


@pytest.mark.long
def test_several_paths_of_independent_networks_are_rejected_as_often_as_alpha_says(many):
    pairs = [(i, (i + 1) % NETWORKS) for i in range(NETWORKS)]
    nulls = [sequential_nulls(beside(many[i], many[j]), 99, seed) for seed, (i, j) in enumerate(pairs)]
    least = [min(null.p_over_paths for null in each.values()) for each in nulls]
    for alpha in (0.02, 0.1):
        assert binomtest(sum(p <= alpha for p in least), len(pairs), alpha).pvalue > SIGNIFICANCE
    assert kstest(least[:NETWORKS:2], "uniform").pvalue > SIGNIFICANCE


def test_each_of_several_paths_has_the_null_that_it_would_have_alone(independent):
    for seed, other in enumerate(independent[1:8]):
        pairs = beside(independent[0], other)
        for path, null in sequential_nulls(pairs, 99, seed).items():
            alone = sequential_null(*pairs[path], 99, seed)
            np.testing.assert_array_equal(null.scores, alone.scores)
            np.testing.assert_array_equal(null.flipped.scores, alone.flipped.scores)
            assert (null.observed, null.p_value) == (alone.observed, alone.p_value)
            assert alone.by_maximum is None
            assert null.p_over_paths >= null.p_value == alone.p_over_paths


def test_published_nulls_are_well_formed_and_a_malformed_one_is_named(tmp_path):
    nulls = {file.stem: published_null(file.stem) for file in (registry_root() / "nulls").glob("*.yaml")}
    null = nulls["llama-2-7b"]
    assert (null.reference, len(null.scores), max(null.scores.values())) == ("meta-llama/Llama-2-7b-hf", 7, 4e-4)
    assert "Training Leaves Traces" in null.source
    assert {null.path for null in nulls.values()} <= {"mlp", "mlp_gate", "value_output", "query_key"}
    assert {null.recipe for null in nulls.values()} <= RECIPES.keys()
    assert factorizations(), "nulls are no factorizations and do not disturb them"
    assert [published_null(name) for name in ("no-such-null", "../llama", "org/model", "")] == [None] * 4
    (tmp_path / "nulls").mkdir()
    (tmp_path / "nulls/odd.yaml").write_text("reference: a/b\nscores: 3\n")
    with pytest.raises(RegistryError, match=r"nulls/odd\.yaml"):
        published_null("odd", tmp_path)


@pytest.mark.few(2)
@pytest.mark.parametrize("half", ["permutations", "signs"])
@pytest.mark.parametrize("size", [5, 6])
def test_drawn_elements_reach_what_the_whole_group_reaches(half, size):
    blocks = np.random.default_rng(1).standard_normal((2, 3, size, size)).astype(np.float32)
    a, b = (PathSignature(one, one, np.ones(3), np.ones(3)) for one in blocks)
    signs, orders = product((1.0, -1.0), repeat=size), permutations(range(size))
    group = map(np.diag, signs) if half == "signs" else (np.eye(size)[[*order]] for order in orders)
    by_hand = np.array([compare_paths(centred(a), centred(b, matrix)).score for matrix in group])
    observed, *drawn = np.concatenate([*scores(half, a, b, 4000, 3)]).tolist()
    assert observed == pytest.approx(by_hand[0], abs=1e-6)
    assert max(abs(by_hand - one).min() for one in drawn) < 1e-6
    for share in (0.5, 0.9, 0.98):
        level = np.quantile(by_hand, share) - 1e-6
        reached = sum(one >= level for one in drawn)
        assert binomtest(reached, len(drawn), float((by_hand >= level).mean())).pvalue > SIGNIFICANCE


@pytest.mark.long
@pytest.mark.parametrize("layer_norm", [False, True], ids=["RMSNorm", "LayerNorm"])
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_p_is_valid_however_the_coordinates_are_arranged(arrangement, layer_norm):
    many = signatures(2 * PAIRS, RECIPES["robust"], 7, ARRANGEMENTS[arrangement], layer_norm)
    nulls = [permutation_null(a, b, 199, seed) for seed, (a, b) in enumerate(zip(many[::2], many[1::2], strict=True))]
    p = [null.p_value for null in nulls]
    halves = zip(*((null.flipped.p_value, null.permuted.p_value) for null in nulls), strict=True)
    uniform = [kstest(some, "uniform").pvalue for some in halves]
    print(f"{arrangement}, {layer_norm=}: KS by signs {uniform[0]:.2g}, by permutations {uniform[1]:.2g}")
    assert uniform[0] > SIGNIFICANCE
    assert kstest(p, "uniform", alternative="greater").pvalue > SIGNIFICANCE
    assert binomtest(sum(one <= 0.01 for one in p), PAIRS, 0.01, alternative="greater").pvalue > SIGNIFICANCE
    if arrangement in ("padded", "principal axes"):
        assert uniform[1] < SIGNIFICANCE, "permutations alone are no valid test here"
