"""Every dispute in miniature has the page that was written down for it, in both builds."""

import json

import pytest

from benchmarks.disputes import BUILDS, FILE, Build, Case, cases, expected, moved, run
from tests.long import LONG

CASES = {case.name: case for case in cases()}
SLOW = {"rio-trained", "rio-named", "extrapolated"}
"""Disputes of which the models are trained anew, or more of them than in others."""


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[LONG] * (name in SLOW)) for name in CASES])
@pytest.mark.crossed("build", "name")
def test_the_page_says_what_was_written_down(tmp_path, name, build):
    case: Case = CASES[name]
    if build.only and name not in build.only:
        pytest.skip("no models of that architecture stand for it")
    outcome = run(case, build, tmp_path)
    assert (outcome.verdicts, outcome.exit) == (case.verdicts, case.exit)
    assert (expected(case, build) in outcome.text) is not (case.open == build.name)


def test_proportions_of_a_build_are_moved_and_add_up():
    assert moved({"a": 0.43, "b": 0.57}, Build("x", {}, 0, moved=-0.21)) == {"a": 0.64, "b": 0.36}


def test_nobody_was_accused_wrongly():
    accused = json.loads(FILE.read_text("utf-8"))["accused"]
    assert accused["triples"] > 200
    assert accused["wrong"] == []
