"""Results files: what is committed is well-formed, and what is written can be read."""

import json

import pytest

from benchmarks.isolated import ROOT
from benchmarks.paper.items import found
from benchmarks.paper.parts.results import Results, Row, file_name

FILES = {item: ROOT / "benchmarks" / "results" / file_name(item) for item in found()}


@pytest.mark.parametrize(("item", "file"), FILES.items())
def test_every_item_has_its_results(item, file):
    content = json.loads(file.read_text(encoding="utf-8"))
    assert list(content) == ["item", "scale", "command", "rows"]
    assert (content["item"], content["scale"]) == (item, "lite")
    assert content["command"].startswith(f"python -m benchmarks.paper {item} --scale lite")
    assert all(list(row) == ["name", "paper", "ours", "note"] for row in content["rows"])
    assert all(row["paper"] is not None or row["ours"] is not None for row in content["rows"])


@pytest.mark.parametrize("item", FILES)
def test_the_claims_hold_for_what_is_committed(item):
    results = Results.read(FILES[item])
    for experiment in found()[item]:
        experiment.claim({row.name: row for row in results.rows})


@pytest.mark.parametrize("item", FILES)
def test_a_row_that_differs_says_why(item):
    for row in Results.read(FILES[item]).rows:
        if isinstance(row.paper, int | float) and abs(row.number - row.paper) > 0.1 * abs(row.paper) + 0.02:
            assert row.note, row.name


def test_names_of_rows_are_their_own():
    for file in FILES.values():
        names = [row.name for row in Results.read(file).rows]
        assert len(names) == len(set(names))


def test_results_are_rounded_written_and_read(tmp_path):
    rows = [Row("a|b", 1.0, 0.123456, "why"), Row("c", None, float("inf"))]
    file = Results("tab:x", "lite", "python", rows).write(tmp_path)
    assert file.name == "tab-x.json"
    read = Results.read(file)
    assert [row.ours for row in read.rows] == [0.1235, None]
    assert "| a\\|b | 1 | 0.1235 | why |" in read.markdown
    assert "| c | – | – |  |" in read.markdown
