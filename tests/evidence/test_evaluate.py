"""Verdicts follow the tables of the method, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.evidence import evaluate
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.equal_numbers import EqualNumbers
from hf_lineage.evidence.evaluate import ALIKE_IN_ALL, SHARED_BASIS, judge, judge_equal, judge_merge, judge_path
from hf_lineage.evidence.executed import RunOutcome, Strict
from hf_lineage.evidence.inherited import DrawnUnits
from hf_lineage.evidence.permutation import NOT_EXCHANGEABLE, TriedElements
from hf_lineage.evidence.verdict import Code, Verdict
from tests.example_evidence import evidence, independent, inheriting, permuted

USUAL = Criteria()
PATHS = {
    "significant and high": (evidence(), Code.INHERITED),
    "not significant, however high": (evidence(p=0.0100001), Code.UNRELATED),
    "exactly alpha": (evidence(p=0.01), Code.INHERITED),
    "significant under the minimum effect": (evidence(score=0.0199), Code.INCONCLUSIVE),
    "exactly the minimum effect": (evidence(score=0.02), Code.INHERITED),
    "a third of it chance": (evidence(score=0.03, permutation=permuted(0.03, 0.011)), Code.INCONCLUSIVE),
    "the least of it chance": (evidence(score=0.04, permutation=permuted(0.04, 0.011)), Code.INHERITED),
    "high on the test coordinates": (evidence(score=0.019, permutation=permuted(0.9)), Code.INCONCLUSIVE),
    "low on the test coordinates": (evidence(permutation=permuted(0.019)), Code.INCONCLUSIVE),
    "half of the layers usable": (evidence(usable=2), Code.INCONCLUSIVE),
    "most of the layers usable": (evidence(usable=3), Code.INHERITED),
    "too narrow to permute": (evidence(permutation=permuted(0.9, coordinates=7)), Code.INCONCLUSIVE),
    "just wide enough to permute": (evidence(permutation=permuted(0.9, coordinates=8)), Code.INHERITED),
    "under the empirical threshold": (evidence(empirical=0.95), Code.UNRELATED),
    "over the empirical threshold": (evidence(empirical=0.5), Code.INHERITED),
    "over the empirical threshold, not significant": (evidence(empirical=0.5, p=0.5), Code.UNRELATED),
    "a layer that is not finite": (evidence(not_finite=((), (2,))), Code.INCONCLUSIVE),
}


def test_the_exit_code_of_every_kind_and_what_accepts_it():
    by_shares = {"inherited": (1.0,) * 4, "part": (1.0, 0.0, 0.0, 0.0), "embedding": (0.0,) * 4}
    for accepted in ((), ("part",), ("embedding",)):
        for kind, shares in by_shares.items():
            outcome = judge({"mlp": evidence(shares=shares)}, Criteria(accept=accepted))
            assert (outcome.code, outcome.exit_code) == (kind, 0 if kind in ("inherited", *accepted) else 3)


ACCEPTING = Criteria(accept=("part",))


@pytest.mark.parametrize(("measured", "kind"), PATHS.values(), ids=PATHS)
def test_one_path(measured, kind):
    assert judge({"mlp": measured}, USUAL).code is kind


def by_models(known, alpha=0.01, score=0.9):
    """Evidence of an architecture that treats its coordinates unlike each other: only independent models can decide."""
    held = replace(known, observed=score, alpha=alpha)
    permutation = replace(permuted(score), not_exchangeable=True)
    return evidence(score, permutation=permutation, empirical=held, p=held.p_value)


def test_where_the_permutation_null_does_not_hold_only_an_empirical_one_decides():
    undecided = judge({"mlp": evidence(permutation=replace(permuted(0.9), not_exchangeable=True))}, USUAL)
    assert (undecided.code, undecided.reason) == (Code.INCONCLUSIVE, NOT_EXCHANGEABLE)
    assert judge({"mlp": by_models(independent(0.5, 99))}, USUAL).code is Code.INHERITED
    assert judge({"mlp": by_models(independent(0.95, 99))}, USUAL).code is Code.UNRELATED
    assert judge({"mlp": by_models(independent(0.01, 99), score=0.0199)}, USUAL).code is Code.INCONCLUSIVE
    for models in range(1, 40):
        measured = by_models(independent(0.5, models), alpha=0.05)
        assert judge({"mlp": measured}, Criteria(0.05)).is_related == (measured.empirical.p_value <= 0.05)


@pytest.mark.parametrize(("models", "alpha", "needed"), [(1, 0.01, 99), (98, 0.01, 99), (3, 0.2, 4), (0, 0.5, 1)])
@pytest.mark.parametrize("score", [0.5, 0.95])
def test_too_few_empirical_scores_decide_neither_way(models, alpha, needed, score):
    outcome = judge({"mlp": by_models(independent(score, models), alpha)}, Criteria(alpha))
    assert outcome.code is Code.INCONCLUSIVE
    assert f"; that needs at least {needed};" in outcome.reason
    enough = by_models(independent(score, needed), alpha)
    assert judge({"mlp": enough}, Criteria(alpha)).code is not Code.INCONCLUSIVE


def test_one_layer_that_is_not_finite_is_a_reason_and_never_a_pass():
    reason = "weights in layers 1-2 of the {} are not finite, or too large for float32"
    for not_finite, who in ((((1, 2), ()), "base"), (((), (1, 2)), "candidate")):
        undecided = Verdict(Code.INCONCLUSIVE, reason.format(who))
        assert [judge_path(evidence(p=p, not_finite=not_finite), USUAL) for p in (0.001, 0.5)] == [undecided] * 2


OF_UNITS = "% of what its units write is inherited"
KINDS = {
    "a copy": ((1.0,) * 4, Code.INHERITED, ""),
    "three of four layers": ((1.0, 1.0, 1.0, 0.0), Code.INHERITED, ""),
    "one half, which copies that cancel reach": ((1.0, 1.0, 0.0, 0.0), Code.PART, f"50{OF_UNITS}, in layers 0-1"),
    "one layer grafted": ((0.0, 1.0, 0.0, 0.0), Code.PART, f"25{OF_UNITS}, in layer 1"),
    "a fifth of every layer": ((0.2,) * 4, Code.PART, f"20{OF_UNITS}, {ALIKE_IN_ALL}"),
    "some of a few layers": ((0.5, 0.3, 0.0, 0.0), Code.PART, f"20{OF_UNITS}, in no layer more than half"),
    "no more than chance gives": ((0.1,) * 4, Code.EMBEDDING, f"10{OF_UNITS}: {SHARED_BASIS}"),
    "no units": ((), Code.EMBEDDING, "a signature holds no hidden units, so it is not known how many are inherited"),
}


@pytest.mark.parametrize(("shares", "kind", "reason"), KINDS.values(), ids=KINDS)
def test_in_which_way_models_are_related_is_told_by_their_units(shares, kind, reason):
    assert judge_path(evidence(shares=shares), USUAL) == Verdict(kind, reason)


def test_several_paths_say_no_more_than_the_weakest_and_are_unrelated_if_all_are():
    three = evidence(shares=(1.0, 1.0, 1.0, 0.0))
    verified = [judge({"mlp": three}, Criteria(min_share=share)).verified for share in (0.5, 0.74, 0.75, 0.9)]
    assert verified == [True, True, False, False], "the share that verifies is the user's"
    measured = {"mlp": evidence(p=0.5), "value_output": evidence()}
    outcome = judge(measured, USUAL)
    assert (outcome.code, outcome.reason) == (Code.PART, "along mlp, no relation is visible")
    by_path = {path: single.label for path, single in outcome.by_path.items()}
    assert by_path == {"mlp": "UNRELATED", "value_output": "VERIFIED inherited"}
    assert judge(measured, Criteria(accept=("part",))).exit_code == 0
    weakest = judge({"mlp": evidence(), "value_output": evidence(shares=(0.0,) * 4)}, USUAL)
    assert (weakest.code, weakest.verified) == (Code.EMBEDDING, False)
    assert judge({"mlp": evidence(), "value_output": evidence()}, USUAL).verified
    assert judge({"mlp": evidence(p=0.5), "query_key": evidence(p=0.9)}, USUAL).code is Code.UNRELATED
    assert judge({"mlp": evidence(p=0.5), "query_key": evidence(score=0.01)}, USUAL).code is Code.INCONCLUSIVE


def parent(*layers, p=0.001):
    drawn = tuple(DrawnUnits(np.arange(10), np.full(10, 0.1), np.array(hits)) for hits in layers)
    shares = replace(inheriting(*(each.share for each in drawn)), drawn_units=drawn)
    return judge({"mlp": evidence(p=p, inherited=shares)}, USUAL)


def first(count, start=0):
    return [[start <= unit < start + count for unit in range(10)]] * 4


def test_parents_of_a_merge_are_verified_together_also_beside_one_that_is_by_itself():
    halves = [parent(*first(5)), parent(*first(5, start=5))]
    assert [each.code for each in halves] == [Code.PART, Code.PART]
    reason = "one of 2 parents of a merge, which inherits more than 50% from all together"
    for each in judge_merge(halves):
        assert (each.code, each.verified, int(each.exit_code), each.reason) == (Code.MERGE, True, 0, reason)
        assert each.by_path["mlp"].verified
        assert each.evidence["mlp"].inherited.share == pytest.approx(0.5)
    many = [parent(*first(2, start=2 * number)) for number in range(4)]
    assert all(each.verified for each in judge_merge(many))
    assert not any(each.verified for each in judge_merge(many, min_share=0.8))
    large, small = parent(*first(7)), parent(*first(3, start=7))
    assert [each.verified for each in (large, small)] == [True, False]
    assert [each.verified for each in judge_merge([large, small])] == [True, True]
    assert judge_merge([large, small])[0] == replace(large, code=Code.MERGE)


def test_parents_are_not_verified_together_where_what_was_asked_for_does_not_hold():
    for asked, code in (
        ({"strict": Strict("org/base", added=("more",))}, Code.CHANGED),
        ({"strict": Strict("b", {"": 3})}, Code.MERGE),
        ({"executed": RunOutcome(problem="it needs more memory")}, Code.UNUSED),
    ):
        halves = [replace(parent(*first(5)), **asked), replace(parent(*first(5, start=5)), **asked)]
        assert {(each.code, each.verified) for each in judge_merge(halves)} == {(code, code is Code.MERGE)}


MERGES = {
    "one parent alone": [parent(*first(5))],
    "both gave the same half: one may be a copy of the other": [parent(*first(5)), parent(*first(5))],
    "ten copies of one parent that gave a tenth": [parent(*first(1)) for _ in range(10)],
    "a parent gave less than a quarter": [parent(*first(4)), parent(*first(2, start=4))],
    "together no more than one half": [parent(*first(3)), parent(*first(2, start=3))],
    "one is unrelated": [parent(*first(5)), parent(*first(5, start=5), p=0.5)],
    "nothing was measured of any": [Verdict(Code.LISTED), Verdict(Code.LISTED)],
    "one cannot be had": [parent(*first(5)), Verdict(Code.NO_BASE, "gated")],
    "one was stored without units": [parent(*first(5)), judge({"mlp": evidence(shares=())}, USUAL)],
    "it is not known which units one gave": [parent(*first(5)), judge({"mlp": evidence(shares=(0.5,) * 4)}, USUAL)],
}


@pytest.mark.parametrize("verdicts", MERGES.values(), ids=MERGES)
def test_parents_of_a_merge_stay_what_they_are_by_themselves(verdicts):
    assert judge_merge(verdicts) == verdicts
    assert not any(each.verified for each in verdicts)


def test_a_reservation_lets_nothing_be_verified_and_nothing_contradicted():
    for outcome in (Verdict(Code.INHERITED), Verdict(Code.UNRELATED)):
        undecided = evaluate.reserve(outcome, ("a setting is unknown", "a tensor is missing", "a setting is unknown"))
        assert (undecided.word, undecided.reason) == ("UNDECIDED", "a setting is unknown; a tensor is missing")
        assert evaluate.reserve(outcome, ()) is outcome


def equal_numbers(energy, reached=0, tests=1):
    """Two layers with this share of equal numbers each; one in ten equals by chance, a tenth of a percent by flips."""
    shares, drawn = np.full(2, energy), np.zeros(999)
    permuted = TriedElements(energy, np.where(np.arange(999) < reached, energy, drawn), None)
    flipped = TriedElements(energy, drawn, None)
    return EqualNumbers((0, 1), shares, shares, np.full(2, 0.1), permuted, flipped, tests)


def test_enough_of_them_are_related_in_part_and_chance_says_nothing():
    unrelated, embedding = Verdict(Code.UNRELATED), Verdict(Code.EMBEDDING)
    for before in (unrelated, embedding):
        found = judge_equal(equal_numbers(0.55), before, ACCEPTING)
        assert (found.code, found.verified, found.accepted) == (Code.PART, False, True)
        assert found.equal.at_least.tolist() == pytest.approx([0.5, 0.5])
        assert "inherit at least 50%" in found.reason
        assert "p = 0.001" in found.reason
    part = judge_equal(equal_numbers(1.0), Verdict(Code.PART, "seen before"), ACCEPTING)
    assert (part.code, part.reason.startswith("seen before; ")) == (Code.PART, True)
    assert judge_equal(equal_numbers(0.11), unrelated, ACCEPTING).code is Code.INCONCLUSIVE
    assert judge_equal(equal_numbers(0.11), embedding, ACCEPTING) is None
    assert judge_equal(equal_numbers(0.55, reached=10), unrelated, ACCEPTING) is None
    assert judge_equal(equal_numbers(0.55, tests=11), unrelated, ACCEPTING) is None
    assert judge_equal(equal_numbers(0.55, tests=10), unrelated, ACCEPTING)
