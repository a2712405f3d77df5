"""What is measured along several paths: whose p-value counts, and by how much it is corrected."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.judging import measurement as measure_module
from hf_lineage.evidence.judging.measurement import Pair, measure, measured
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
