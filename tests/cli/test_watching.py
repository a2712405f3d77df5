"""watch: what the options mean to a run, and that a dry run leaves nothing behind."""

from datetime import UTC, datetime

import pytest

from hf_lineage.cli.watching import _write_issues
from hf_lineage.watch import run as watching
from hf_lineage.watch.rendering import Plan
from tests.invoking import lineage


@pytest.fixture
def scopes(monkeypatch):
    """What dry runs are to list; none of them asks the Hub anything."""
    seen = []

    def plan(scope, book):
        seen.append((scope, book))
        return Plan((), 0, 0, tuple(f"{name} has no models" for name in scope.names if name == "nobody"))

    monkeypatch.setattr(watching, "plan", plan)
    return seen


def dry_run(*arguments):
    return lineage("watch", *arguments, "--dry-run")


def test_the_options_are_the_scope_of_a_run(scopes, tmp_path):
    dry_run("fern", "acme/base", "--since", "2026-01-31", "--limit", "7", "--again", "--ledger", tmp_path / "l.jsonl")
    ((scope, book),) = scopes
    assert scope == watching.Scope(("fern", "acme/base"), datetime(2026, 1, 31, tzinfo=UTC), 7, True)
    assert not book.known


def test_by_default_a_hundred_models_are_checked_from_where_the_ledger_ends(scopes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dry_run("fern")
    assert scopes[0][0] == watching.Scope(("fern",), None, 100, False)


def test_a_dry_run_leaves_nothing_behind_and_fails_only_where_a_name_cannot_be_listed(scopes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert dry_run("fern", "--issues", "issues").code == 0
    found = dry_run("nobody")
    assert (found.code, "nobody has no models" in found.out) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_nobody_to_watch_is_wrong_usage(scopes):
    assert "Missing argument 'AUTHOR...'" in dry_run().error
    assert scopes == []


def test_issues_are_files_of_their_names_and_those_of_before_stay(tmp_path):
    _write_issues({"a--b--c.md": "one"}, tmp_path / "deep/issues")
    _write_issues({"a--b--c.md": "two", "a--b--d.md": "three\u2013\n"}, tmp_path / "deep/issues")
    texts = {file.name: file.read_text("utf-8") for file in (tmp_path / "deep/issues").iterdir()}
    assert texts == {"a--b--c.md": "two", "a--b--d.md": "three\u2013\n"}
