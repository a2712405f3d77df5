"""Observations of the running model stand in every report, and a model that could not be run is not verified."""

import datetime
import json
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage import Options, compare
from hf_lineage.checking.report import apply_policy
from hf_lineage.evidence.evaluate import with_run, with_strict
from hf_lineage.evidence.executed import Ablation, Beyond, Loss, Ran, RunOutcome, Strict
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.policy import Policy, Waiver, parse
from hf_lineage.report import FORMATS
from hf_lineage.report.executed import describe_strict
from tests.blends import BASE, other_mlps
from tests.models import EXAMPLES
from tests.pages import HOSTILE, document, measured, report, row, words
from tests.report.test_sarif import validate

RAN = Ran("org/model", {"short": (32, 16), "long": (1, 1024)}, 658_656)
LOSSES = [Loss(np.array(nats), parts) for nats, parts in (([4.0, 4.2], 90), ([0.5], 9))]
USED = RunOutcome(RAN, Ablation("nats", "short", 2.0, LOSSES[0], LOSSES[1], LOSSES[1]), 7)
PROBLEM = RunOutcome(problem="org/base could not be run: it needs 9000 MiB of memory, and 100 MiB are free")
TOLD = ("text", "markdown", "html", "github", "sarif", "cyclonedx")


HOLDS = Strict("org/base at commit c0ffee", {"Q4_K": 217, "Q6_K": 36, "": 38})
WRONG = (
    Beyond("model.layers.3.mlp.up_proj.weight", 1000, 3, 12.34, (7, 9)),
    Beyond("model.norm.weight", 10, 10, float("inf"), (0,)),
    Beyond("lm_head.weight", 10, 0, 0.0, (), 2),
)
FAILS = replace(
    HOLDS, beyond=WRONG, unbound={"a": "GPTQ minimises the error", "b": "GPTQ minimises the error"},
    added=("more.weight",), lacking=("less.weight", "least.weight"), settings=("rope_theta is 1, and 2 in the base",),
    copies=("lm_head.weight is the embedding, to which it is tied",),
)  # fmt: skip
UNCOMPARED = Strict("org/base", problem="org/model may also be loaded with its adapter")


def asked(value):
    """A report on a claim after a run or a strict comparison, or after neither."""
    one = row("org/base", mlp=measured())
    add = with_strict if isinstance(value, Strict) else with_run
    return report(one if value is None else replace(one, verdict=add(one.verdict, value)))


@pytest.mark.parametrize("form", TOLD)
@pytest.mark.parametrize(("value", "brief", "explained"), [
    (USED, "ithout what it has in common with org/base this model loses 4.1 nats a token",
     "erified by running: what is common is used"),
    (HOLDS, "he quantization (Q4_K, Q6_K) of org/base at commit c0ffee and nothing else: 291 of 291 tensors",
     "217 tensors stored as Q4_K"),
    (FAILS, "291 of 297 tensors hold the numbers of org/base at commit c0ffee as their formats store them",
     "up_proj.weight at (7, 9) is 12.3 steps further from the base's number than its format leaves"),
    (PROBLEM, "org/base could not be run: it needs 9000 MiB", "unused"),
], ids=["ran", "holds", "fails", "did not run"])  # fmt: skip
def test_every_report_says_what_was_seen_when_it_ran_and_of_every_number(form, value, brief, explained):
    text = words(form, asked(value)).replace("\\", "")
    assert brief in text
    assert text.count(brief) == 1 or explained != "unused" or form not in ("text", "markdown")
    left_out = form == "github" or (form in ("sarif", "cyclonedx") and "stored as" in explained)
    assert left_out or explained in words(form, asked(value), explain=True).replace("\\", "")


def test_the_report_for_machines_holds_everything_and_fits_its_schema():
    unable, unseen = (document(asked(value))["claims"][0]["executed"] for value in (PROBLEM, None))
    assert (unable["problem"], unseen) == (PROBLEM.problem, None)
    for value in (USED, replace(USED, ablation=None)):
        shown = document(asked(value))["claims"][0]["executed"]
        assert (shown["verified"], shown["seed"]) == (bool(value.ablation), 7)
        assert shown["ran"]["inputs"] == {"short": [32, 16], "long": [1, 1024]}
    ablation = document(asked(USED))["claims"][0]["executed"]["ablation"]
    assert (ablation["inherited"]["mean"], ablation["carries"]) == (pytest.approx(4.1), 1.0)
    told = [document(asked(value))["claims"][0]["strict"] for value in (HOLDS, FAILS, UNCOMPARED, None)]
    assert [one and one["holds"] for one in told] == [True, False, False, None]
    assert [one["excess"] for one in told[1]["beyond"]] == [12.34, None, 0.0]
    assert told[1]["stored"] == {"Q4_K": 217, "Q6_K": 36, "equal": 38}


@pytest.mark.parametrize("form", TOLD)
def test_names_of_hostile_tensors_are_escaped_and_a_reason_is_no_markup(form):
    hostile = replace(FAILS, beyond=(Beyond(HOSTILE, 1, 1, 2.0, (0,)),), added=(HOSTILE,), unbound={HOSTILE: "why"})
    text = FORMATS[form](asked(hostile), True)
    assert "\x1b" not in text
    assert "<script>window" not in text or form != "html"
    assert "<script" not in FORMATS[form](judged(HOSTILE[:400]), False) or form in ("text", "github", "cyclonedx")


def test_a_policy_may_ask_for_it():
    executed = f"claims that are verified by running, but {PROBLEM.problem}"
    unrun = "claims that are verified by running, but it was not run (--run)"
    strict = "models that are the base's numbers and nothing else, but its numbers do not show that"
    uncompared = "models that are the base's numbers and nothing else, but the numbers were not compared (--strict)"
    for required, value, unmet in (
        ("executed", USED, ""), ("executed", PROBLEM, executed), ("executed", None, unrun),
        ("strict", HOLDS, ""), ("strict", FAILS, strict), ("strict", None, uncompared),
    ):  # fmt: skip
        one = apply_policy(asked(value), parse(f"require: {required}", "p.yaml"), TODAY)
        assert (one.status, one.rows[0].unmet) == ((3, (f"the policy asks for {unmet}",)) if unmet else (0, ()))


def test_without_ancestry_nothing_says_that_training_made_the_difference():
    one, said = row("org/base", mlp=measured()), []
    for verdict in (Verdict(Code.UNRELATED), one.verdict):
        finding = describe_strict(replace(HOLDS, beyond=WRONG[1:2]), replace(one, verdict=verdict), report())
        said += [line for line in finding.sentences if " differ" in line]
    assert said[0] == "of 1 tensors that differ, 1 do in more than 1 % of their numbers"
    assert "as training" in said[1]


def test_reports_have_both_p_and_a_lower_bound_for_each_layer(tmp_path):
    options = Options(seed=0, permutations=199, paths=("mlp",))
    report = compare(str(EXAMPLES / BASE), str(other_mlps(tmp_path / "model")), options)
    (claim,) = document(report)["claims"]
    shown = claim["findings"]["equal"]["values"]
    assert claim["p_value_adjusted"] == shown["p_value_adjusted"] == pytest.approx(3 / 301)
    assert max(shown["p_permutations"], shown["p_signs"]) <= shown["p_value_adjusted"]
    assert list(shown["inherited_at_least"]) == [str(layer) for layer in range(6)]
    assert "numbers" in report.to_text()


DAY, TODAY = datetime.date(2027, 3, 31), datetime.date(2026, 11, 22)
WHY = "a student of its answers"


def judged(reason=WHY, today=TODAY, **more):
    """A contradicted claim that is accepted, and a true one of another relation than is asked for."""
    policy = Policy("p.yaml", (Waiver("org/base", Code.UNRELATED, reason, DAY),), **more)
    rows = row("org/base", mlp=measured(score=0.005, p=0.5, share=0.0)), row("org/other", mlp=measured())
    return apply_policy(report(*rows), policy, today)


@pytest.mark.parametrize("form", ["json", *TOLD])
def test_every_report_tells_verdict_reason_and_day_also_when_that_is_past(form):
    text = " ".join(FORMATS[form](judged(), False).split())
    assert all(word in text for word in ("UNRELATED", WHY, "2027")), text
    expired = judged(today=datetime.date(2027, 4, 1))
    text = " ".join(FORMATS[form](expired, False).split())
    assert all(word in text for word in ("UNRELATED", "until 2027-03-31, and that day has passed")), text
    assert (expired.status, expired.rows[0].waiver) == (1, None)


def test_machines_are_told_what_was_found_and_what_was_made_of_it():
    told = document(judged())
    assert (told["verdict"], told["exit_code"]) == ("UNRELATED", 0), "the policy decides what the command returns"
    assert told["policy"] == {
        "source": "p.yaml", "fail_on": None, "require": None, "own_code": "accept", "undeclared_parent": None,
        "relations": [], "accepted": 1,
    }  # fmt: skip
    first, second = told["claims"]
    assert (first["verdict"], first["exit_code"]) == ("UNRELATED", 1)
    assert first["waiver"] == {"reason": WHY, "expires": "2027-03-31"}
    assert (second["waiver"], second["unmet"]) == (None, [])
    told = json.loads(FORMATS["github"](judged(fail_on="never"), False))
    assert (told["exit_code"], told["unaccepted"], told["unmet"], told["fail_on"]) == (1, 0, False, "never")
    assert told["outputs"]["verdict"] == "UNRELATED"
    log = json.loads(FORMATS["sarif"](judged(relations=("merge",)), False))
    validate(log)
    first, second = log["runs"][0]["results"]
    assert first["suppressions"] == [
        {"kind": "external", "status": "accepted", "justification": f"{WHY} (accepted until 2027-03-31)"}
    ]
    assert (second["kind"], second["level"], "suppressions" in second) == ("fail", "warning", False)
