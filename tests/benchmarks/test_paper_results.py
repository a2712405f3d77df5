"""Results files: what is committed is well-formed, and what is written can be read."""

import json
from dataclasses import replace

import pytest

from benchmarks.isolated import ROOT
from benchmarks.paper.experiment import ClaimError, Results, Row, file_name
from benchmarks.paper.items import found

EXPERIMENTS = [experiment for several in found().values() for experiment in several]
FILES = {item: ROOT / "benchmarks" / "results" / file_name(item) for item in found()}


@pytest.mark.parametrize(("item", "file"), FILES.items())
def test_every_item_has_its_results(item, file):
    content = json.loads(file.read_text(encoding="utf-8"))
    assert list(content) == ["item", "scale", "command", "rows"]
    assert (content["item"], content["scale"]) == (item, "lite")
    assert content["command"].startswith(f"python -m benchmarks.paper {item} --scale lite")
    assert all(list(row) == ["name", "paper", "ours", "note"] for row in content["rows"])
    assert all(row["paper"] is not None or row["ours"] is not None for row in content["rows"])


@pytest.fixture(params=EXPERIMENTS, ids=lambda experiment: f"{experiment.item}, {experiment.title}")
def experiment(request):
    return request.param


def committed(item):
    return {row.name: row for row in Results.read(FILES[item]).rows}


def fails(experiment, rows):
    try:
        experiment.claim(rows)
    except ClaimError:
        return True
    return False


def test_a_claim_holds_for_what_is_committed(experiment):
    experiment.claim(committed(experiment.item))


def test_a_claim_fails_for_other_figures(experiment):
    rows = committed(experiment.item)
    wrong = [0.0, 0.5, 1.0, 99.0, "W: 0 factorizations"]
    assert any(fails(experiment, rows | {name: replace(rows[name], ours=value)}) for name in rows for value in wrong)


@pytest.mark.parametrize("item", FILES)
def test_a_row_that_differs_says_why(item):
    for row in Results.read(FILES[item]).rows:
        if isinstance(row.paper, int | float) and abs(row.number - row.paper) > 0.1 * abs(row.paper) + 0.02:
            assert row.note, row.name


def test_results_are_rounded_written_and_read(tmp_path):
    rows = [Row("a|b", 1.0, 0.123456, "why"), Row("c", None, float("inf"))]
    file = Results("tab:x", "lite", "python", rows).write(tmp_path)
    assert file.name == "tab-x.json"
    read = Results.read(file)
    assert [row.ours for row in read.rows] == [0.1235, None]
    assert "| a\\|b | 1 | 0.1235 | why |" in read.markdown
    assert "| c | – | – |  |" in read.markdown
