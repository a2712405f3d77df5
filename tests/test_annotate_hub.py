"""A check written to the Hub: commits and pull requests, with the real client against a server of this machine."""

import pytest

from hf_lineage import Options
from hf_lineage import annotate as annotate_module
from hf_lineage.errors import RepositoryError
from tests.invoking import lineage
from tests.models import family
from tests.server.commits import Commits

CARD, RECORD, CHILD = "README.md", "lineage/claims.json", "fern/child"
TOKEN = "hf_averysecrettoken"


@pytest.fixture
def server(online, tmp_path, monkeypatch):
    """A Hub that takes commits, with a base and a fine-tune that declares it; this process's client talks to it."""
    family(tmp_path)
    for name in ("acme/base", CHILD):
        online.publish(name, tmp_path / name)
    (tmp_path / "commits").mkdir()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return Commits(online, tmp_path / "commits").attach()


def annotate(*arguments, model=CHILD):
    result = lineage("annotate", model, *arguments)
    assert TOKEN not in result.out + result.err
    return result


def propose(*arguments):
    return annotate("--pull-request", *arguments)


def test_without_a_flag_nothing_is_asked_that_needs_an_account(server, monkeypatch):
    result = annotate()
    assert result.code == 0
    assert "+++ b/README.md" in result.out
    assert server.made == []
    assert all(request.startswith(("GET", "HEAD")) for request in server.hub.requests)
    assert "GET /api/whoami-v2" not in server.hub.requests


class TestPullRequest:
    def test_it_is_opened_once_with_both_files_and_both_commits(self, server):
        checked, base = server.hub.commit(CHILD, "main"), server.hub.commit("acme/base", "main")
        result = propose()
        assert (result.code, result.err) == (0, "")
        opened = f"Opened a pull request: {server.hub.url}/{CHILD}/discussions/1\n"
        assert result.out == f"acme/base: VERIFIED inherited\n{opened}"
        assert server.made == [(CHILD, "refs/pr/1", [CARD, RECORD])]
        assert server.hub.commit(CHILD, "main") == checked
        text = server.file(CHILD, "refs/pr/1", CARD).decode()
        assert text.startswith(server.file(CHILD, "main", CARD).decode())
        options = "--budget full --seed 0"
        assert f"$ hf-lineage check {CHILD}@{checked} --base acme/base@{base} {options}\n" in text
        assert f"({CHILD} at {checked}, acme/base at {base})" in text
        assert server.proposals[0]["title"] == annotate_module.TITLE

    def test_an_open_one_is_updated_not_doubled(self, server):
        propose()
        server.push(CHILD, "refs/pr/1", {CARD: server.file(CHILD, "refs/pr/1", CARD) + b"A reviewer's line.\n"})
        tip = server.hub.commit(CHILD, "refs/pr/1")
        updated = f"acme/base: VERIFIED inherited\nUpdated pull request 1: {server.hub.url}/{CHILD}/commit/"
        assert propose("--seed", "1").out.startswith(updated)
        assert (len(server.proposals), server.made[1]) == (1, (CHILD, "refs/pr/1", [CARD, RECORD]))
        assert server.hub.commit(CHILD, "refs/pr/1") != tip
        text = server.file(CHILD, "refs/pr/1", CARD)
        assert b"--seed 1\n" in text
        assert text.endswith(b"A reviewer's line.\n")

    def test_once_it_is_merged_nothing_is_left_to_do(self, server):
        propose()
        server.hub.published[CHILD]["main"] = server.hub.published[CHILD]["refs/pr/1"]
        server.proposals[0]["status"] = "merged"
        assert propose().out == "acme/base: VERIFIED inherited\nAlready up to date; nothing was written.\n"

    def test_one_that_moves_meanwhile_is_noticed(self, server, monkeypatch):
        propose()
        result = annotate_module.annotate(CHILD, options=Options(alpha=0.001), target="pull-request")
        found_files = annotate_module._files

        def move(repo):
            files = found_files(repo)
            server.push(CHILD, "refs/pr/1", {CARD: b"Edited meanwhile.\n"})
            return files

        monkeypatch.setattr(annotate_module, "_files", move)
        with pytest.raises(RepositoryError, match="the branch changed during the check; run again"):
            annotate_module.propose(result)

    def test_it_is_made_against_the_main_branch_alone(self, server, tmp_path):
        server.hub.publish(CHILD, tmp_path / CHILD, revision="v2")
        error = annotate("--pull-request", model=f"{CHILD}@v2").error
        assert error == f"{CHILD}@v2: a pull request is made against the main branch; leave @v2 out"
        assert "Opened" in annotate("--pull-request", model=f"{CHILD}@main").out


class TestWrite:
    def test_it_commits_once_and_then_again_only_when_weights_change(self, server):
        checked = server.hub.commit(CHILD, "main")
        result = annotate("--write")
        head = server.hub.commit(CHILD, "main")
        assert (result.code, result.err) == (0, "")
        assert result.out == f"acme/base: VERIFIED inherited\nCommitted: {server.hub.url}/{CHILD}/commit/{head}\n"
        assert server.made == [(CHILD, "main", [CARD, RECORD])]
        assert head != checked
        assert annotate("--write").out == "acme/base: VERIFIED inherited\nAlready up to date; nothing was written.\n"
        server.push(CHILD, "main", {CARD: server.file(CHILD, "main", CARD) + b"More.\n"})
        assert "Already up to date" in annotate("--write").out
        assert len(server.made) == 1
        server.push(CHILD, "main", {"tokenizer.json": b"{}"})
        head = server.hub.commit(CHILD, "main")
        assert "Committed" in annotate("--write").out
        assert f"({CHILD} at {head}, ".encode() in server.file(CHILD, "main", CARD)
        assert server.file(CHILD, "main", CARD).endswith(b"More.\n")

    def test_a_commit_that_the_weights_do_not_have_is_not_kept(self, server):
        annotate("--write")
        head = server.hub.commit(CHILD, "main")
        forged = server.file(CHILD, "main", RECORD)
        for commit in {word for word in forged.decode().replace('"', " ").replace("@", " ").split() if len(word) == 40}:
            if commit in server.hub.published[CHILD]:
                forged = forged.replace(commit.encode(), b"f" * 40)
        head = server.push(CHILD, "main", {RECORD: forged})
        assert "Committed" in annotate("--write").out
        assert f"({CHILD} at {head}, ".encode() in server.file(CHILD, "main", CARD)

    def test_a_commit_cannot_be_written_to(self, server):
        at_commit = f"{CHILD}@{server.hub.commit(CHILD, 'main')}"
        assert "names a commit, which cannot change; name a branch" in annotate("--write", model=at_commit).error

    @pytest.mark.parametrize(
        ("trouble", "message"),
        [
            ({"refusal": 403}, "the Hub refuses the change (403): the branch does not exist, pull requests are"),
            ({"refusal": 500}, "the Hub answers 500 by HF_ENDPOINT http"),
            ({"invalid": '"base_model" is odd'}, 'the Hub refuses README.md: Invalid metadata in README.md. - "base_'),
        ],
    )
    def test_a_refusal_is_one_line(self, server, trouble, message):
        vars(server).update(trouble)
        assert f"{CHILD}: {message}" in annotate("--write").error
        assert server.made == []
