"""The command of the paper's items: it starts nothing unasked, says how far it is, and spares committed results."""

import json

import pytest
from click.testing import CliRunner

from benchmarks.paper import __main__ as command
from benchmarks.paper.experiment import Experiment, Row
from benchmarks.paper.items import found

ITEMS = ("tab:one", "tab:two")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the command with two items that take no time, and another place of the committed results."""

    def rows(bench):
        return [Row("score", None, bench.cache.kept("models", "a", lambda: 1.0))]

    made = {item: [Experiment(item, f"what {item} is", rows, lambda rows: None)] for item in ITEMS}
    monkeypatch.setattr(command, "found", lambda: made)
    monkeypatch.setattr(command, "RESULTS", tmp_path / "committed")
    return lambda *options: CliRunner().invoke(command.main, ["--scratch", str(tmp_path / "scratch"), *options])


def written(folder):
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*.json")}


@pytest.mark.parametrize("options", [(), ("--list",), ("--list", "tab:one")])
def test_the_items_are_listed_and_none_is_run(run, tmp_path, options):
    done = run(*options)
    assert done.exit_code == 0
    assert [line.split(maxsplit=1) for line in done.stdout.splitlines()] == [
        [item, f"what {item} is"] for item in ITEMS
    ]  # fmt: skip
    assert written(tmp_path) == set()


def test_every_item_has_a_line_of_its_own():
    assert len(command.listing(found()).splitlines()) == len(found())


def test_results_go_to_the_scratch_folder_which_is_named(run, tmp_path):
    done = run("tab:one")
    assert written(tmp_path) == {"scratch/results/tab-one.json"}
    assert done.stderr.splitlines()[-1] == f"The results are in {tmp_path / 'scratch/results'}"


def test_committed_results_are_written_over_only_where_that_is_asked_for(run, tmp_path):
    assert run("tab:two", "--write").exit_code == 0
    assert written(tmp_path) == {"committed/tab-two.json"}
    assert json.loads((tmp_path / "committed/tab-two.json").read_text())["item"] == "tab:two"


@pytest.mark.parametrize("other", [("--scale", "smoke"), ("--output", "here")])
def test_what_is_not_kept_is_never_written_over_them(run, tmp_path, other):
    done = run("tab:one", "--write", *other)
    assert (done.exit_code, written(tmp_path)) == (2, set())
    assert "--write is for benchmarks/results" in done.stderr


def test_a_run_says_which_item_of_how_many_it_is_at_and_what_took_its_time(run, monkeypatch):
    clock = iter(range(0, 1000, 7))
    monkeypatch.setattr("benchmarks.paper.parts.cache.time.monotonic", lambda: next(clock))
    lines = run("--all").stderr.splitlines()
    assert lines[:3] == ["tab:one, 1 of 2", "  models: 7 seconds", "tab:two, 2 of 2"]
