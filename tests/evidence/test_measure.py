"""What is measured along several paths, whose p-value counts, by how much it is corrected, and when reading ends."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from hf_lineage.evidence import measure as reading
from hf_lineage.evidence import p_values as permutations
from hf_lineage.evidence import permutation
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import judge
from hf_lineage.evidence.measure import Pair, analyses, measure, reading_order
from hf_lineage.evidence.p_values import EmpiricalNull
from hf_lineage.signature.values import PathSignature, UnitCodes
from tests.long import first_of
from tests.signature.test_values import codes, path_signature, signature

LAYERS, WIDTH = 3, 16
DEPTH, RANK, UNITS = 12, 3, 8
ALPHA, STOPS = 0.05, analyses(DEPTH, 0.5)
CRITERIA = Criteria(ALPHA, minimum_effect=-1.0, permutations=39, analyses=len(STOPS))
"""The p-value alone decides: the minimum effect would make errors of any rule rarer."""


def path(seed=0, width=WIDTH):
    residuals = np.random.default_rng(seed).standard_normal((LAYERS, width, width)).astype(np.float32)
    sizes = np.linalg.norm(residuals.astype(float), axis=(1, 2))
    return PathSignature(residuals, residuals, np.ones(LAYERS), sizes, units=tuple(codes(4) for _ in range(LAYERS)))


def pair_of(name, *both):
    return Pair(name, both, tuple(tuple(range(len(one.trace))) for one in both))


def pair(name, seed=0):
    return pair_of(name, path(), path(seed))


def test_the_same_weights_score_one_and_interim_analyses_multiply_p():
    found = measure([pair("same"), pair("other", seed=1)], Criteria(permutations=99))
    assert found["same"].comparison.score == pytest.approx(1)
    assert abs(found["other"].comparison.score) < 0.2
    assert found["same"].p_value == 1 / 101, "the least that is below alpha, also of two paths"
    assert found["other"].p_value > 0.05
    pairs = [pair("same"), pair("other", seed=1)]
    once, thrice = (measure(pairs, Criteria(permutations=999, analyses=count)) for count in (1, 3))
    assert thrice["same"].p_value == pytest.approx(3 * once["same"].first.p_over_paths)
    assert thrice["other"].p_value <= 1


def test_paths_of_unlike_widths_share_alpha_and_can_still_reach_it():
    """Their coordinates cannot be permuted alike; the two of one width have two thirds of alpha between them."""
    wide = [pair("mlp"), pair("mlp_gate", seed=1)]
    narrow = pair_of("value_output", path(width=9), path(width=9))
    found = measure([*wide, narrow], Criteria(permutations=99))
    assert list(found) == ["mlp", "mlp_gate", "value_output"]
    assert found["mlp"].p_value == pytest.approx(1 / 151 * 3 / 2)
    assert found["value_output"].p_value == pytest.approx(1 / 301 * 3)
    assert found["mlp_gate"].p_value > 0.05
    assert [found[name].first.correction for name in found] == ["Westfall and Young 1993, Bonferroni"] * 3


def test_where_permutations_do_not_hold_independent_models_give_the_p_value():
    known = EmpiricalNull({str(number): 0.01 for number in range(99)}, "a test")
    apart = replace(pair("mlp"), exchangeable=False)
    found = measure([apart], Criteria(independent={"mlp": known}))["mlp"]
    assert (found.decided_by, found.p_value) == (found.empirical, 0.01)
    assert found.empirical.observed == found.comparison.score
    assert measure([apart], Criteria())["mlp"].decided_by is None


def test_layers_bear_their_numbers_and_of_one_not_finite_no_unit_says_anything():
    broken = path()
    broken.norm[1] = np.nan
    found = measure([pair("whole"), pair_of("broken", path(), broken)], Criteria(permutations=19))
    assert found["whole"].inherited is not None
    assert (found["broken"].inherited, found["broken"].not_finite) == (None, ((), (1,)))

    def model(*without):
        return replace(signature(), layers=5, paths={"mlp": path_signature(layers=3)}, without={"mlp": without})

    assert Pair.align("mlp", model(0, 3), model(1, 2)).layers == ((1, 2, 4), (0, 3, 4))
    for base, candidate in ((True, True), (True, False), (False, True)):
        both = Pair.align("mlp", signature(exchangeable=base), signature(exchangeable=candidate))
        assert both.exchangeable is (base and candidate)


def tail(hits, read, inherited, layers):
    """Probability that as many of the layers read are inherited, or more, by adding up what can happen."""
    ways = (math.comb(inherited, hit) * math.comb(layers - inherited, read - hit) for hit in range(hits, read + 1))
    return Fraction(sum(ways), math.comb(layers, read))


def test_every_layer_is_among_the_first_as_often_as_any_other():
    counts = np.zeros(16)
    for seed in range(1600):
        counts[list(reading_order(16, seed)[:4])] += 1
    # Expected 400 each, with a standard deviation of 17.
    assert (np.abs(counts - 400) < 5 * 17).all(), counts


@pytest.mark.parametrize("layers", [1, 2, 5, 8, 12, 13])
def test_the_bound_is_what_counting_every_way_to_draw_layers_gives(layers):
    for read in range(1, layers + 1):
        draws = np.array([*itertools.combinations(range(layers), read)])
        hits_of = [(draws < inherited).sum(axis=1) for inherited in range(layers + 1)]
        for hits in range(read + 1):
            possible = range(hits, layers - (read - hits) + 1)
            bound = min(inherited for inherited in possible if (hits_of[inherited] >= hits).mean() > reading.MISSED)
            assert reading.at_least(hits, read, layers) == bound, (layers, read, hits)


@pytest.mark.parametrize("layers", [8, 12, 16, 24, 32, 80])
def test_whoever_copies_a_fixed_set_of_layers_is_verified_early_by_one_percent(layers):
    """Half of the layers or fewer, whichever they are: the order is drawn afterwards, so that only their number counts.

    At an analysis after t layers the bound is above one half for as many hits as `needed`, or more.
    """
    for read in analyses(layers, 0.5)[:-1]:
        needed = next((hits for hits in range(1, read + 1) if reading.at_least(hits, read, layers) > layers / 2), None)
        assert needed is not None
        assert max(tail(needed, read, copied, layers) for copied in range(layers // 2 + 1)) <= reading.MISSED


def test_analyses_bound_the_share_and_miss_grafts_as_rarely_as_is_claimed():
    assert {layers: reading.fewest(layers, 0.5) for layers in (12, 24, 32, 80)} == {12: 5, 24: 6, 32: 6, 80: 7}
    for layers, share in itertools.product((8, 24, 32, 80), (0.25, 0.5, 0.75, 0.9)):
        read = reading.fewest(layers, share)
        assert reading.at_least(read, read, layers) > share * layers
        assert reading.at_least(read - 1, read - 1, layers) <= share * layers or read == 1
    for layers in range(1, 200):
        copied, read = reading.graft(layers), reading.enough(layers)
        assert 1 - tail(1, read, copied, layers) <= reading.MISSED
        assert read == 1 or 1 - tail(1, read - 1, copied, layers) > reading.MISSED
    expected = {8: (5, 8), 9: (4, 9), 12: (5, 9, 12), 32: (6, 13, 32)}
    assert {layers: analyses(layers, 0.5) for layers in expected} == expected


def most(count, alpha=ALPHA):
    """So many false positives, and no more, a test of level alpha has in all but one of a thousand runs."""
    return int(binom.ppf(0.999, count, alpha))


def independent(random):
    """Layers of random products of low rank, as trained ones are: any permutation of coordinates is as likely."""
    out, inn = random.standard_normal((2, DEPTH, 12, RANK))
    blocks = (out @ inn.transpose(0, 2, 1)).astype(np.float32)
    trace = blocks.trace(axis1=1, axis2=2).astype(float) + random.lognormal(size=DEPTH)
    rows = random.integers(0, 256, (DEPTH, 3, UNITS, 16), dtype=np.uint8)
    units = tuple(UnitCodes(np.ones(UNITS, np.float32), *each) for each in rows)
    return PathSignature(blocks, blocks, trace, np.linalg.norm(blocks, axis=(1, 2)).astype(float), units=units)


def judged(seed):
    """The p-values and the words of the analyses of one pair, uncorrected and corrected, in the order they are made."""
    random = np.random.default_rng(seed)
    base, candidate = independent(random), independent(random)
    p_values, words = [], []
    for read in STOPS:
        rows = sorted(reading_order(DEPTH, seed)[:read])
        evidence = measure([pair_of("mlp", base.select(rows), candidate.select(rows))], replace(CRITERIA, seed=seed))
        p_values.append(evidence["mlp"].permutation.p_value)
        words.append(judge(evidence, CRITERIA).word)
        if words[-1] == "UNRELATED" and read >= reading.enough(DEPTH) and p_values[-1] > reading.DOUBTFUL:
            break
    return p_values, words


@pytest.fixture(scope="module", params=first_of([200, 2000]))
def pairs(request):
    """All of them, in less time than with the usual constants, which say how long a p-value takes and not its level."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.cpu_count", lambda: 1)
        patch.setattr(permutation, "BATCHES", (32, 32))
        patch.setitem(permutation.TILES, "permutations", 32)
        patch.setattr(permutations, "LONGER", 3)
        patch.setattr(permutations, "MANY", 60)
        return [judged(seed) for seed in range(request.param)]


def test_independent_models_are_related_at_any_analysis_no_more_often_than_alpha(pairs):
    assert STOPS == (5, 9, 12)
    once, twice, thrice = (sum(len(words) == count for _, words in pairs) for count in (1, 2, 3))
    assert once == 0
    assert twice > thrice > len(pairs) / 20
    assert 0 < sum("RELATED" in words for _, words in pairs) <= most(len(pairs))
    assert 0 < sum(words[0] == "RELATED" for _, words in pairs) <= most(len(pairs), ALPHA / len(STOPS))


@pytest.mark.long
@pytest.mark.parametrize("pairs", [2000], indirect=True)
def test_without_the_correction_they_are_called_related_far_more_often(pairs):
    assert sum(min(p_values) <= ALPHA for p_values, _ in pairs) > 1.1 * most(len(pairs))
