"""Observations of the running model stand in every report, and a model that could not be run is not verified."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.checking.results.policies import under
from hf_lineage.evidence.executed import Ablation, Executed, Loss, Ran
from hf_lineage.evidence.judging.evaluation import with_run
from hf_lineage.policy.file import parse
from tests.pages import document, measured, report, row, words
from tests.report.findings.test_notes import TODAY

READ = {"short": (32, 16), "long": (1, 1024)}
LOSSES = [Loss(np.array(nats), parts) for nats, parts in (([4.0, 4.2], 90), ([0.5], 9))]
USED = Executed(Ran("org/model", READ, 658_656), Ablation("nats", "short", 2.0, LOSSES[0], LOSSES[1], LOSSES[1]), 7)
PROBLEM = Executed(problem="org/base could not be run: it needs 9000 MiB of memory, and 100 MiB are free")
TOLD = ("text", "markdown", "html", "github", "sarif", "cyclonedx")


def ran(executed=USED, **more):
    one = row("org/base", mlp=measured(**more))
    return report(one if executed is None else replace(one, verdict=with_run(one.verdict, executed)))


@pytest.mark.parametrize("form", TOLD)
def test_every_report_says_what_the_model_loses_without_what_it_has_in_common(form):
    text = words(form, ran())
    assert "ithout what it has in common with org/base this model loses 4.1 nats a token" in text
    assert form == "github" or "erified by running: what is common is used" in words(form, ran(), explain=True)


@pytest.mark.parametrize("form", TOLD)
def test_every_report_says_why_a_model_was_not_run(form):
    text = words(form, ran(PROBLEM))
    assert "unused" in text
    assert text.count("org/base could not be run: it needs 9000 MiB") == 1 or form not in ("text", "markdown")
    assert "org/base could not be run: it needs 9000 MiB" in text


@pytest.mark.parametrize("executed", [USED, PROBLEM, replace(USED, ablation=None), None])
def test_the_report_for_machines_holds_everything_and_fits_its_schema(executed):
    (claim,) = document(ran(executed))["claims"]
    if executed is USED:
        assert (claim["executed"]["verified"], claim["executed"]["seed"]) == (True, 7)
        assert claim["executed"]["ablation"]["inherited"]["mean"] == pytest.approx(4.1)
        assert claim["executed"]["ablation"]["carries"] == 1.0
        assert claim["executed"]["ran"]["inputs"] == {"short": [32, 16], "long": [1, 1024]}
    if executed is None:
        assert claim["executed"] is None


def test_a_policy_may_ask_for_it():
    policy = parse("require: executed", "p.yaml")
    said = [under(ran(executed), policy, TODAY) for executed in (USED, PROBLEM, None)]
    assert [one.status for one in said] == [0, 3, 3]
    assert [one.rows[0].unmet for one in said][1:] == [
        (f"the policy asks for claims that are verified by running, but {PROBLEM.problem}",),
        ("the policy asks for claims that are verified by running, but it was not run (--run)",),
    ]
