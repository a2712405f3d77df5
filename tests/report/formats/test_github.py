"""What the action tells the runner: one JSON object with its outputs, its annotation and its summary."""

import json

from hf_lineage.report import FORMATS
from tests.pages import HOSTILE, hostile_report, measured, report, row


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
