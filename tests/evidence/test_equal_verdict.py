"""Equal numbers lift UNRELATED, add to what paths show, and verify nothing."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.equal_numbers import EqualNumbers
from hf_lineage.evidence.evaluate import judge_equal
from hf_lineage.evidence.permutation import Tried
from hf_lineage.evidence.verdict import Code, Verdict

CRITERIA = Criteria(accept=("part",))


def measured(energy, reached=0, tests=1):
    """Two layers with this share of equal numbers each; one in ten equals by chance, a tenth of a percent by flips."""
    shares, drawn = np.full(2, energy), np.zeros(999)
    permuted = Tried(energy, np.where(np.arange(999) < reached, energy, drawn), None)
    flipped = Tried(energy, drawn, None)
    return EqualNumbers((0, 1), shares, shares, np.full(2, 0.1), permuted, flipped, tests)


def before(kind, reason="seen before"):
    return Verdict(kind, reason)


@pytest.mark.parametrize("kind", [Code.UNRELATED, Code.EMBEDDING])
def test_enough_of_them_are_related_in_part_whatever_was_said_before(kind):
    found = judge_equal(measured(0.55), before(kind), CRITERIA)
    assert (found.code, found.verified, found.accepted) == (Code.PART, False, True)
    assert found.equal.at_least.tolist() == pytest.approx([0.5, 0.5])
    assert "inherit at least 50%" in found.reason
    assert "p = 0.001" in found.reason


def test_a_part_that_paths_have_seen_is_kept_with_what_they_said():
    found = judge_equal(measured(1.0), before(Code.PART), CRITERIA)
    assert found.reason.startswith("seen before; ")
    assert found.code is Code.PART


def test_a_few_of_them_make_unrelated_inconclusive_and_change_nothing_else():
    assert judge_equal(measured(0.11), before(Code.UNRELATED), CRITERIA).code is Code.INCONCLUSIVE
    assert judge_equal(measured(0.11), before(Code.EMBEDDING), CRITERIA) is None


def test_as_many_as_chance_gives_say_nothing():
    assert judge_equal(measured(0.55, reached=10), before(Code.UNRELATED), CRITERIA) is None
    assert judge_equal(measured(0.55, tests=11), before(Code.UNRELATED), CRITERIA) is None
    assert judge_equal(replace(measured(0.55), tests=10), before(Code.UNRELATED), CRITERIA)
