"""Stages are made one after the other, and every possible one has its part of alpha."""

from dataclasses import replace

import pytest

from hf_lineage import Options, compare
from hf_lineage.checking.judge import stages
from hf_lineage.checking.judge.stage import Stage
from hf_lineage.checking.judge.stages import decide
from hf_lineage.errors import CheckpointError
from hf_lineage.evidence.verdict import Code, Verdict
from tests.example_evidence import evidence

HUB = "examples/hub"
BASE, INDEPENDENT = f"{HUB}/acme/llama-base", f"{HUB}/otter/llama-independent"


def judged(model=INDEPENDENT):
    (row,) = compare(BASE, model, Options(seed=0, permutations=199, paths=("mlp",))).rows
    return row.verdict


@pytest.fixture
def toy(monkeypatch):
    """Add a stage to the list, which notes what it was called with."""
    calls = []

    def add(analyses=2, outcome=None, possible=True):
        def run(pair, criteria, before):
            calls.append((pair.base.name, criteria.tests, before.code))
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        stage = Stage(
            name="by their names",
            possible=lambda pair: possible,
            analyses=lambda pair: analyses,
            called_for=lambda pair, before: before is not None and before.code is Code.UNRELATED,
            run=run,
        )
        monkeypatch.setattr(stages, "STAGES", (*stages.STAGES, stage))
        return calls

    return add


def counted(verdict):
    return [one.analyses + one.further for one in verdict.evidence.values()]


def test_a_stage_that_is_added_is_run_and_has_its_part_of_alpha(toy):
    before = judged()
    calls = toy(outcome=Verdict(Code.INCONCLUSIVE, "they have one name"))
    after = judged()
    (tests,) = counted(before)
    assert calls == [(BASE, tests + 2, "unrelated")]
    assert counted(after) == [tests + 2]
    assert (after.code, after.reason) == ("inconclusive", "they have one name")
    assert after.framed is None or after.framed.tests == tests + 2


@pytest.mark.long
def test_one_that_is_not_possible_costs_nothing_and_one_that_is_not_called_for_costs_its_part(toy):
    (tests,) = counted(judged(f"{HUB}/fern/llama-finetune-a"))
    assert toy(possible=False) == []
    assert counted(judged(f"{HUB}/fern/llama-finetune-a")) == [tests]
    assert toy(analyses=3) == []
    assert counted(judged(f"{HUB}/fern/llama-finetune-a")) == [tests + 3]


def test_one_that_cannot_be_made_leaves_the_verdict_and_says_why(toy):
    toy(outcome=CheckpointError("the names are damaged"))
    outcome = judged()
    assert outcome.code is Code.UNRELATED
    assert outcome.reason == "could not be compared by their names: the names are damaged"


def test_one_that_leaves_the_verdict_to_others_changes_nothing(toy):
    toy()
    assert judged().code is Code.UNRELATED


def test_the_later_stage_decides_unless_it_finds_nothing_where_the_first_was_significant():
    measured = {"mlp": evidence(score=0.01, p=0.001)}
    faint, unrelated = Verdict(Code.INCONCLUSIVE, "faint", measured), Verdict(Code.UNRELATED)
    assert decide(faint, unrelated, alpha=0.01) == faint
    related = Verdict(Code.INHERITED, "in the order of the base")
    assert decide(faint, related, alpha=0.01) == replace(related, evidence=measured)
    clear = {"mlp": evidence(p=0.5)}
    assert decide(Verdict(Code.INCONCLUSIVE, "no test", clear), unrelated, 0.01) == replace(unrelated, evidence=clear)
