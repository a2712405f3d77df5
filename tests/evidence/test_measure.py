"""What is measured along several paths: whose p-value counts, and by how much it is corrected."""

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from hf_lineage.evidence import measure as measure_module
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.measure import (
    FEWEST_LAYERS,
    MISSED,
    Pair,
    analyses,
    at_least,
    drawn_seed,
    enough,
    fewest,
    graft,
    measure,
    measured,
    reading_order,
)
from hf_lineage.signature.values import PathSignature, Signature
from tests.signature.test_values import ROBUST, codes

LAYERS, WIDTH = 3, 16


@dataclass(frozen=True)
class Fixed:
    """A null with a p-value that is known beforehand."""

    p_value: float
    over_paths: float | None = None
    objection: str = ""
    name: str = "fixed"
    admits: bool = True
    correction: str = "none"

    @property
    def p_over_paths(self):
        return self.p_value if self.over_paths is None else self.over_paths

    def describe(self):
        return "known beforehand"


def path(seed=0, width=WIDTH):
    residuals = np.random.default_rng(seed).standard_normal((LAYERS, width, width)).astype(np.float32)
    sizes = np.linalg.norm(residuals.astype(float), axis=(1, 2))
    return PathSignature(residuals, residuals, np.ones(LAYERS), sizes, units=tuple(codes(4) for _ in range(LAYERS)))


def pair(name, seed=0):
    return Pair.along(name, path(), path(seed))


@pytest.fixture
def tried(monkeypatch):
    """Let these nulls be all that there are."""

    def only(*makes):
        monkeypatch.setattr(measure_module, "NULLS", dict(enumerate(makes)))

    return only


def p_values(pairs, **criteria):
    return {name: found.p_value for name, found in measured(pairs, Criteria(**criteria)).items()}


def test_the_same_weights_score_one_and_independent_ones_about_nothing():
    found = measured([pair("same"), pair("other", seed=1)], Criteria(permutations=99))
    assert found["same"].comparison.score == pytest.approx(1)
    assert abs(found["other"].comparison.score) < 0.2
    assert found["same"].p_value == 1 / 101, "the least that is below alpha, also of two paths"
    assert found["other"].p_value > 0.05


def test_of_two_signatures_only_the_paths_that_are_named_are_measured():
    def model(seed):
        recipe = replace(ROBUST, probes=None)
        return Signature("a/b", None, "C", "c", True, WIDTH, LAYERS, recipe, {"mlp": path(seed), "mlp_gate": path()})

    assert list(measure(model(0), model(1), Criteria(permutations=19))) == ["mlp"]
    assert list(measure(model(0), model(1), Criteria(permutations=19, paths=("mlp_gate", "mlp")))) == [
        "mlp_gate",
        "mlp",
    ]


def test_the_first_null_that_holds_gives_the_p_value_and_all_are_kept(tried):
    makes = (Fixed(0.001, objection="it does not hold"), None, Fixed(0.03), Fixed(0.5))
    tried(*(lambda pairs, scores, criteria, null=null: {"mlp": null} if null else {} for null in makes))
    found = measured([pair("mlp")], Criteria())["mlp"]
    assert found.p_value == 0.03
    assert found.nulls == tuple(null for null in makes if null)


def test_where_no_null_holds_the_last_one_gives_the_p_value(tried):
    tried(*(lambda pairs, scores, criteria, p=p: {"mlp": Fixed(p, objection="none")} for p in (0.1, 0.2)))
    assert p_values([pair("mlp")]) == {"mlp": 0.2}


def test_the_p_value_is_the_one_that_the_null_has_corrected_for_several_paths(tried):
    known = {"a": Fixed(0.01, over_paths=0.02), "b": Fixed(0.02), "c": Fixed(0.01, over_paths=0.03, objection="none")}
    tried(lambda pairs, scores, criteria: known)
    assert p_values(list(map(pair, known))) == {"a": 0.02, "b": 0.02, "c": 0.03}


def test_paths_of_unlike_widths_share_alpha_and_can_still_reach_it():
    """Their coordinates cannot be permuted alike; the two of one width have two thirds of alpha between them."""
    wide = [pair("mlp"), pair("mlp_gate", seed=1)]
    narrow = Pair.along("value_output", path(width=9), path(width=9))
    found = measured([*wide, narrow], Criteria(permutations=99))
    assert list(found) == ["mlp", "mlp_gate", "value_output"]
    assert found["mlp"].p_value == pytest.approx(1 / 151 * 3 / 2)
    assert found["value_output"].p_value == pytest.approx(1 / 301 * 3)
    assert found["mlp_gate"].p_value > 0.05
    assert [found[name].first.correction for name in found] == ["Westfall and Young 1993, Bonferroni"] * 3


def test_interim_analyses_multiply_every_p_value_up_to_one(tried):
    known = {"a": Fixed(0.01, over_paths=0.02), "b": Fixed(0.4), "c": Fixed(0.1)}
    tried(lambda pairs, scores, criteria: known)
    assert p_values(list(map(pair, known)), analyses=3) == pytest.approx({"a": 0.06, "b": 1.0, "c": 0.3})


def test_each_null_gets_the_scores_of_all_paths(tried):
    given = {}
    tried(lambda pairs, scores, criteria: given.update(scores) or {pair.path: Fixed(0.5) for pair in pairs})
    found = measured([pair("same"), pair("other", seed=1)], Criteria())
    assert given == {name: evidence.comparison.score for name, evidence in found.items()}


def test_nothing_is_said_of_units_where_a_layer_is_not_finite(tried):
    tried(lambda pairs, scores, criteria: dict.fromkeys(scores, Fixed(0.5)))
    broken = path()
    broken.norm[1] = np.nan
    found = measured([pair("whole"), Pair.along("broken", path(), broken)], Criteria())
    assert found["whole"].inherited is not None
    assert (found["broken"].inherited, found["broken"].not_finite) == (None, ((), (1,)))


DEPTHS = range(1, 200)


def tail(hits, read, inherited, layers):
    """Probability that as many of the layers read are inherited, or more, by adding up what can happen."""
    ways = (math.comb(inherited, hit) * math.comb(layers - inherited, read - hit) for hit in range(hits, read + 1))
    return Fraction(sum(ways), math.comb(layers, read))


def test_every_layer_is_read_once():
    assert all(sorted(reading_order(layers, seed=0)) == list(range(layers)) for layers in DEPTHS)


def test_the_order_of_a_seed_is_the_same_for_ever():
    assert reading_order(8, seed=0) == (3, 0, 7, 2, 1, 6, 4, 5)
    assert reading_order(8, seed=1) != reading_order(8, seed=0)


def test_every_layer_is_among_the_first_as_often_as_any_other():
    counts = np.zeros(16)
    for seed in range(4000):
        counts[list(reading_order(16, seed)[:4])] += 1
    # Expected 1000 each, with a standard deviation of 27.
    assert (np.abs(counts - 1000) < 5 * 27).all(), counts


def test_nobody_can_foresee_the_seed():
    assert len({drawn_seed() for _ in range(100)}) > 95


@pytest.mark.parametrize("layers", [1, 2, 5, 8, 12, 13])
def test_the_bound_is_what_counting_every_way_to_draw_layers_gives(layers):
    for read in range(1, layers + 1):
        draws = list(itertools.combinations(range(layers), read))
        for hits in range(read + 1):
            possible = [
                inherited
                for inherited in range(hits, layers - (read - hits) + 1)
                if sum(sum(layer < inherited for layer in drawn) >= hits for drawn in draws) > MISSED * len(draws)
            ]
            assert at_least(hits, read, layers) == min(possible), (layers, read, hits)


@pytest.mark.parametrize("layers", [24, 32, 80, 126])
def test_the_bound_inverts_the_hypergeometric_distribution(layers):
    for read in range(1, layers + 1, 3):
        for hits in range(1, read + 1):
            least = at_least(hits, read, layers)
            assert tail(hits, read, least, layers) > MISSED
            assert least == hits or tail(hits, read, least - 1, layers) <= MISSED


@pytest.mark.parametrize("layers", [8, 12, 16, 24, 32, 80])
def test_whoever_copies_any_fixed_set_of_layers_is_verified_early_with_one_percent_at_most(layers):
    """Half of the layers or fewer, whichever they are: the order is drawn afterwards, so that only their number counts.

    At an analysis after t layers the bound is above one half for as many hits as `needed`, or more.
    """
    for read in analyses(layers, 0.5)[:-1]:
        needed = next((hits for hits in range(1, read + 1) if at_least(hits, read, layers) > layers / 2), None)
        assert needed is not None
        assert max(tail(needed, read, copied, layers) for copied in range(layers // 2 + 1)) <= MISSED


def test_the_same_by_every_order_there_is():
    """Eight layers, of which any four are copied: every order of reading is tried."""
    layers, copied = 8, {0, 2, 4, 6}
    (early, *_), orders = analyses(layers, 0.5), 0
    fooled = 0
    for order in itertools.permutations(range(layers)):
        orders += 1
        fooled += at_least(sum(layer in copied for layer in order[:early]), early, layers) > layers / 2
    assert fooled / orders <= MISSED


def test_the_first_analysis_comes_after_the_fewest_layers_that_bound_the_share():
    assert {layers: fewest(layers, 0.5) for layers in (12, 24, 32, 80)} == {12: 5, 24: 6, 32: 6, 80: 7}
    for layers, share in itertools.product((8, 24, 32, 80), (0.25, 0.5, 0.75, 0.9)):
        read = fewest(layers, share)
        assert at_least(read, read, layers) > share * layers
        assert at_least(read - 1, read - 1, layers) <= share * layers or read == 1


def test_a_graft_is_missed_as_rarely_as_is_claimed():
    for layers in DEPTHS:
        copied, read = graft(layers), enough(layers)
        assert 1 - tail(1, read, copied, layers) <= MISSED
        assert read == 1 or 1 - tail(1, read - 1, copied, layers) > MISSED


def test_the_last_layers_are_read_where_fewer_are_left_than_are_looked_for():
    assert {layers: analyses(layers, 0.5) for layers in (8, 9, 12, 32)} == {
        8: (5, 8),
        9: (4, 9),
        12: (5, 9, 12),
        32: (6, 13, 32),
    }


@pytest.mark.long
def test_a_model_of_few_layers_is_read_as_a_whole():
    assert [analyses(layers, 0.5) for layers in (1, FEWEST_LAYERS - 1)] == [(1,), (7,)]
    assert all(analyses(layers, 0.5)[-1] == layers for layers in DEPTHS)
    assert all(len(set(analyses(layers, share))) <= 3 for layers in DEPTHS for share in (0.1, 0.5, 0.99))
