"""SARIF keeps to its schema; each claim is a result of its level, at its line, under one fingerprint."""

import json
from pathlib import Path

import pytest

from hf_lineage import Options, check
from hf_lineage.checking.report import Report
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.report import FORMATS
from tests.models import card
from tests.pages import HOSTILE, hostile_report, measured, report, row
from tests.report.test_cyclonedx import CODES

SCHEMA = Path(__file__).parents[1] / "data" / "schemas" / "sarif-2.1.0.json"


def log(report):
    return json.loads(FORMATS["sarif"](report, False))


def validate(document):
    import jsonschema

    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text("utf-8"))).validate(document)


def test_it_keeps_to_the_schema_of_oasis(any_report):
    validate(log(any_report))


def test_each_verdict_has_its_rule_and_level(every_kind):
    (run,) = log(every_kind)["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert (
        [rules[result["ruleIndex"]]["id"] for result in run["results"]]
        == [result["ruleId"] for result in run["results"]]
        == [f"lineage/{code}" for code in CODES]
    )
    assert [(result["kind"], result["level"]) for result in run["results"]] == [
        ("pass", "none"), ("fail", "error"), ("fail", "warning"),
        ("fail", "warning"), ("fail", "note"), ("fail", "error"),
    ]  # fmt: skip


def test_a_result_has_its_numbers(every_kind):
    (run,) = log(every_kind)["runs"]
    assert run["results"][0]["properties"] == {
        "verdict": "VERIFIED", "code": "inherited", "verified": True, "base": "org/base", "baseCommit": "0" * 40,
        "relation": "finetune", "sources": ["README.md"], "score": pytest.approx(0.973), "pValue": 0.001,
        "inherited": pytest.approx(1.0),
    }  # fmt: skip
    said = "org/base is VERIFIED inherited (score 0.973, 100% inherited, p = 0.001)."
    assert run["results"][0]["message"]["text"] == said
    assert "score" not in run["results"][3]["properties"]


@pytest.mark.parametrize(("share", "rule"), [(0.3, "part"), (0.0, "embedding")])
def test_a_code_that_verifies_no_claim_is_a_warning_unless_it_is_accepted(share, rule):
    def result(*accept):
        (run,) = log(report(row(mlp=measured(share=share), criteria=Criteria(accept=accept))))["runs"]
        (result,) = run["results"]
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        return result["ruleId"], result["kind"], result["level"]

    validate(log(report(row(mlp=measured(share=share)))))
    assert result() == (f"lineage/{rule}", "fail", "warning")
    assert result("part", "embedding") == (f"lineage/{rule}", "pass", "none")


def test_fingerprints_tell_claims_apart_and_outlive_commits(every_kind):
    def prints(model):
        report = Report(model, None, every_kind.rows[:2], (), Options())
        results = log(report)["runs"][0]["results"]
        return [result["partialFingerprints"]["primaryLocationLineHash"] for result in results]

    assert prints("org/model@v1") == prints("org/model@v2")
    assert len({*prints("org/model"), *prints("org/other")}) == 4


def test_what_belongs_to_no_claim_is_a_notification(every_kind, folder):
    def notes(report):
        (run,) = log(report)["runs"]
        return [note["message"]["text"] for note in run["invocations"][0]["toolExecutionNotifications"]]

    conflict = "Conflicting claims: README.md declares a/b; adapter_config.json declares c/d"
    assert notes(every_kind) == [conflict, "org/base: All 4 layers come from it"]
    assert notes(check(str(card(folder))))[0].startswith("Nothing is declared")


def test_no_message_holds_a_link_or_a_placeholder(hostile_report):
    (run,) = log(hostile_report)["runs"]
    (text,) = {
        result["message"]["text"].partition(" is ")[0]
        for result in run["results"]
        if "a link" in result["message"]["text"] and result["ruleId"] == "lineage/unrelated"
    }
    assert text.startswith(r"\[a link\](https://evil.example) @everyone {{0}} ${{{{ secrets.TOKEN }}}}")


def rendered(*rows):
    return json.loads(FORMATS["github"](report(*rows), False))


def test_the_outputs_are_those_of_the_claim_that_decides():
    related, unrelated = row(mlp=measured()), row(mlp=measured(score=0.01, p=0.4))
    both = rendered(related, unrelated)
    assert both["exit_code"] == 1
    outputs = both["outputs"]
    figures = [outputs[name] for name in ("verdict", "code", "verified", "score", "p-value")]
    assert figures == ["UNRELATED", "unrelated", "false", "0.01", "0.4"]
    alone = rendered(related)
    assert (alone["exit_code"], alone["outputs"]["verified"]) == (0, "true")


def test_nothing_declared_is_an_output_of_its_own_and_leaves_the_figures_empty():
    empty = rendered()
    assert (empty["exit_code"], empty["outputs"]["code"], empty["outputs"]["verified"]) == (3, "undeclared", "false")
    assert {empty["outputs"][name] for name in ("score", "p-value")} == {""}


def test_names_that_nobody_has_checked_reach_no_line_of_their_own():
    found = json.loads(FORMATS["github"](hostile_report(HOSTILE), False))
    assert HOSTILE not in found["message"]
    assert "\n" not in found["title"] + found["message"]
