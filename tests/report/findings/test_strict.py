"""Whether every number is the base's: every report says it first, and a policy may require it."""

from dataclasses import replace

import pytest

from hf_lineage.checking.results.policies import under
from hf_lineage.evidence.judging.evaluation import with_strict
from hf_lineage.evidence.strict.outcome import Beyond, Strict
from hf_lineage.evidence.verdict import Code, ExitCode, Verdict
from hf_lineage.policy.file import parse
from hf_lineage.report import FORMATS
from hf_lineage.report.findings.strict import describe
from tests.pages import HOSTILE, document, measured, report, row, words
from tests.report.findings.test_notes import TODAY

HOLDS = Strict("org/base at commit c0ffee", {"Q4_K": 217, "Q6_K": 36, "": 38})
WRONG = (
    Beyond("model.layers.3.mlp.up_proj.weight", 1000, 3, 12.34, (7, 9)),
    Beyond("model.norm.weight", 10, 10, float("inf"), (0,)),
    Beyond("lm_head.weight", 10, 0, 0.0, (), 2),
)
FAILS = replace(
    HOLDS,
    beyond=WRONG,
    unbound={"a": "GPTQ minimises the error", "b": "GPTQ minimises the error"},
    added=("more.weight",),
    lacking=("less.weight", "least.weight"),
    copies=("lm_head.weight is the embedding, to which it is tied",),
    settings=("rope_theta is 1, and 2 in the base",),
)
PROBLEM = Strict("org/base", problem="org/model may also be loaded with its adapter")
TOLD = ("text", "markdown", "html", "github", "sarif", "cyclonedx")


def held(strict=HOLDS):
    one = row("org/base", mlp=measured())
    return report(one if strict is None else replace(one, verdict=with_strict(one.verdict, strict)))


@pytest.mark.parametrize("form", TOLD)
def test_every_report_says_what_the_model_is_and_nothing_else(form):
    said = "he quantization (Q4_K, Q6_K) of org/base at commit c0ffee and nothing else: 291 of 291 tensors"
    assert said in words(form, held()).replace("\\", "")


@pytest.mark.parametrize("form", TOLD)
def test_every_report_says_what_is_not_the_base(form):
    text = words(form, held(FAILS)).replace("\\", "")
    assert "291 of 297 tensors hold the numbers of org/base at commit c0ffee as their formats store them" in text
    furthest = "up_proj.weight at (7, 9) is 12.3 steps further from the base's number than its format leaves"
    assert form == "github" or furthest in words(form, held(FAILS), explain=True).replace("\\", "")


def test_a_model_that_is_not_the_base_is_not_verified_and_the_command_returns_3_unless_it_is_worse():
    assert [held(strict).exit_code for strict in (HOLDS, FAILS, PROBLEM, None)] == [0, 3, 3, 0]
    assert held(FAILS).rows[0].verdict.label == "RELATED changed"
    assert with_strict(Verdict(Code.UNRELATED), FAILS).exit_code is ExitCode.UNRELATED
    assert with_strict(Verdict(Code.PART, accepted=True), FAILS).exit_code is ExitCode.UNDECIDED
    assert with_strict(Verdict(Code.INCONCLUSIVE), HOLDS).exit_code is ExitCode.UNDECIDED


def test_a_model_that_is_not_verified_is_not_verified_by_its_numbers():
    assert not Verdict(Code.INCONCLUSIVE, strict=HOLDS).is_strict
    assert held().rows[0].verdict.is_strict


@pytest.mark.parametrize("strict", [HOLDS, FAILS, PROBLEM, None])
def test_the_report_for_machines_holds_everything_and_fits_its_schema(strict):
    (claim,) = document(held(strict))["claims"]
    assert (claim["strict"] is None) == (strict is None)
    if strict is FAILS:
        assert [one["excess"] for one in claim["strict"]["beyond"]] == [12.34, None, 0.0]
        assert claim["strict"]["stored"] == {"Q4_K": 217, "Q6_K": 36, "equal": 38}


def test_names_of_hostile_tensors_are_escaped():
    hostile = replace(FAILS, beyond=(Beyond(HOSTILE, 1, 1, 2.0, (0,)),), added=(HOSTILE,), unbound={HOSTILE: "why"})
    for form in TOLD:
        text = FORMATS[form](held(hostile), True)
        assert "\x1b" not in text
        assert "<script>window" not in text or form not in ("html",)


def test_a_policy_may_ask_for_it():
    policy = parse("require: strict", "p.yaml")
    said = [under(held(strict), policy, TODAY) for strict in (HOLDS, FAILS, None)]
    assert [one.status for one in said] == [0, 3, 3]
    asked = "the policy asks for models that are the base's numbers and nothing else, but "
    assert [one.rows[0].unmet for one in said][1:] == [
        (f"{asked}its numbers do not show that",),
        (f"{asked}the numbers were not compared (--strict)",),
    ]


def test_of_models_without_common_ancestry_nothing_says_that_training_made_the_difference():
    one = row("org/base", mlp=measured())
    unrelated = replace(one, verdict=Verdict(Code.UNRELATED, strict=replace(HOLDS, beyond=WRONG[1:2])))
    (told,) = [said for said in describe(report(unrelated), unrelated).sentences if "that differ" in said]
    assert told == "of 1 tensors that differ, 1 do in more than 1 % of their numbers"
    related = replace(one, verdict=replace(one.verdict, strict=replace(HOLDS, beyond=WRONG[1:2])))
    assert any("as training" in said for said in describe(report(related), related).sentences)
