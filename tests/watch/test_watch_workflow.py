"""The scheduled workflow: its steps, run as the runner runs them, with a git repository on disk and a gh that notes."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from hf_lineage.watch.messages import issues
from tests.watch.test_ledger import claim, entry

ROOT = Path(__file__).parents[2]
OURS, THEIRS = ROOT / ".github/workflows/watch.yml", ROOT / "examples/workflows/watch.yml"
GH = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> "$NOTES/calls"
case "$1 $2" in
  "issue list") cat "$NOTES/titles" ;;
  "issue create") printf '%s\\n' "$4" >> "$NOTES/titles"; cat > "$NOTES/body" ;;
esac
"""
LINEAGE = """#!/usr/bin/env bash
printf '%s\\n' "$@" > "$NOTES/watched"
echo '{}' >> results/ledger.jsonl
echo summary
exit "$CODE"
"""
LIE = claim(verdict="UNRELATED")


@pytest.fixture
def room(tmp_path):
    """A workplace with the programs that the steps call, and a repository that has no ledger yet."""
    for name, script in {"gh": GH, "hf-lineage": LINEAGE}.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(script)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/titles").touch()
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "org/repo"], check=True)
    return tmp_path


def step(room, job, name, place, **settings):
    """Run a step of a job, in a folder that stands for its machine; return the exit code."""
    workflow = yaml.safe_load(THEIRS.read_text())
    (step,) = (each for each in workflow["jobs"][job]["steps"] if each.get("name") == name)
    literal = {key: value for key, value in step.get("env", {}).items() if "${{" not in value}
    known = {"PATH": f"{room / 'bin'}:{os.environ['PATH']}", "HOME": str(room), "NOTES": str(room / "notes")}
    github = {"GITHUB_SERVER_URL": f"file://{room}", "GITHUB_REPOSITORY": "org/repo"}
    (room / place).mkdir(exist_ok=True)
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=room / place, env=known | github | workflow["env"] | literal | settings, check=False,
    ).returncode  # fmt: skip


def night(room, number, line):
    """Two jobs on machines of their own: the ledger is fetched, a line is added, and it is kept."""
    first, second = (f"{job}-{number}" for job in ("check", "report"))
    assert step(room, "check", "Fetch the ledger", first) == 0
    with (room / first / "results/ledger.jsonl").open("a") as ledger:
        ledger.write(line)
    (room / second / "results").mkdir(parents=True)
    (room / first / "results/ledger.jsonl").rename(room / second / "results/ledger.jsonl")
    return step(room, "report", "Keep the ledger", second)


def kept(room):
    command = ["git", "-C", room / "org/repo", "show", "lineage-ledger:ledger.jsonl"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_what_users_copy_is_what_runs_here_but_for_what_is_installed():
    own, example = (yaml.safe_load(file.read_text()) for file in (OURS, THEIRS))
    steps = own["jobs"]["check"]["steps"]
    assert steps.pop(0)["uses"].startswith("actions/checkout@")
    commands = [each["jobs"]["check"]["steps"][1].pop("run") for each in (own, example)]
    assert own == example
    assert 'pip install "hf-lineage @ https://github.com/hf-lineage/hf-lineage/' in commands[1]


def test_the_ledger_grows_from_night_to_night_on_a_branch_of_its_own(room):
    assert night(room, 1, "one\n") == 0
    assert night(room, 2, "two\n") == 0
    assert kept(room) == "one\ntwo\n"
    assert night(room, 3, "") == 0
    log = ["git", "-C", room / "org/repo", "log", "--format=%an", "lineage-ledger"]
    authors = subprocess.run(log, capture_output=True, text=True, check=True).stdout.split()
    assert authors == ["github-actions[bot]"] * 2


def test_a_repository_that_cannot_be_asked_is_no_empty_ledger(room):
    night(room, 1, "one\n")
    (room / "org/repo").rename(room / "org/gone")
    assert step(room, "check", "Fetch the ledger", "check-2") != 0


@pytest.mark.parametrize(("code", "status"), [(0, 0), (1, 0), (3, 0), (2, 2), (130, 130)])
def test_an_error_turns_the_job_red_and_a_verdict_does_not(room, code, status):
    (room / "check/results").mkdir(parents=True)
    summary = room / "summary"
    settings = {"WATCHED": "fern acme/base $(touch owned) `id`", "GITHUB_STEP_SUMMARY": str(summary), "CODE": str(code)}
    assert step(room, "check", "Watch", "check", **settings) == status
    assert summary.read_text() == "summary\n"
    words = (room / "notes/watched").read_text().splitlines()
    assert words[:7] == ["watch", "fern", "acme/base", "$(touch", "owned)", "`id`", "--since"]
    assert not (room / "check/owned").exists()


@pytest.mark.parametrize(("again", "count"), [("true", 1), ("false", 0), ("", 0)])
def test_what_could_not_be_checked_is_checked_again_where_somebody_asks_for_it(room, again, count):
    (room / "check/results").mkdir(parents=True)
    settings = {"WATCHED": "fern", "GITHUB_STEP_SUMMARY": str(room / "summary"), "CODE": "0", "AGAIN": again}
    assert step(room, "check", "Watch", "check", **settings) == 0
    assert (room / "notes/watched").read_text().splitlines().count("--again") == count


def test_an_issue_is_opened_for_each_model_and_commit_once(room):
    (room / "report/results/issues").mkdir(parents=True)
    seen = [entry("fern/liar", claims=(LIE,)), entry("fern/liar2", claims=(LIE,))]
    texts = issues(seen)
    for name, text in texts.items():
        (room / "report/results/issues" / name).write_text(text)
    assert step(room, "report", "Open issues", "report") == 0
    titles = [text.splitlines()[0] for text in texts.values()]
    assert sorted((room / "notes/titles").read_text().splitlines()) == sorted(titles)
    bodies = [text.split("\n\n", 1)[1] for text in texts.values()]
    assert (room / "notes/body").read_text() in bodies
    assert step(room, "report", "Open issues", "report") == 0
    assert (room / "notes/calls").read_text().count("issue create") == 2


def test_what_stands_in_a_title_is_no_command_and_no_pattern(room):
    (room / "report/results/issues").mkdir(parents=True)
    (room / "notes/titles").write_text("Lineage contradicted: fernXliar\n")
    (room / "report/results/issues/x.md").write_text(
        "Lineage contradicted: fern.liar $(touch owned) `touch owned`\n\nText\n"
    )
    (room / "report/results/issues/y.md").write_text("Lineage contradicted: fern.liar\n\nText\n")
    assert step(room, "report", "Open issues", "report") == 0
    assert (room / "notes/titles").read_text().splitlines()[1:] == [
        "Lineage contradicted: fern.liar $(touch owned) `touch owned`",
        "Lineage contradicted: fern.liar",
    ]
    assert not (room / "report/owned").exists()


def test_a_night_without_issues_is_no_failure(room):
    (room / "report/results").mkdir(parents=True)
    assert step(room, "report", "Open issues", "report") == 0
