"""Commits and pull requests: what is sent once, what is found again, and what a Hub that refuses becomes."""

import sys
from io import StringIO

import pytest
from huggingface_hub.utils.tqdm import are_progress_bars_disabled

from hf_lineage.errors import NetworkError, RepositoryError
from hf_lineage.hub import commits
from tests.server import faults
from tests.server.commits import Commits

MODEL, CARD, CONFIG, WEIGHTS = "fern/child", "README.md", "config.json", "model.safetensors"
TITLE, DESCRIPTION, ALWAYS = "A title", "A description.", 10**6


@pytest.fixture
def server(online, tmp_path, monkeypatch):
    """A Hub with one model, which takes commits of wren's."""
    for folder in ("child", "commits"):
        (tmp_path / folder).mkdir()
    (tmp_path / "child" / CONFIG).write_bytes(b"{}")
    online.publish(MODEL, tmp_path / "child")
    monkeypatch.setenv("HF_TOKEN", "hf_averysecrettoken")
    commits.tree.cache_clear()
    return Commits(online, tmp_path / "commits").attach()


def head(server, revision="main"):
    return server.hub.commit(MODEL, revision)


def commit(server, files=None, **where):
    return commits.commit(MODEL, files or {CARD: b"A card."}, head(server), "A change", **where)


def propose(server, files):
    """Propose whatever of these files a commit does not have."""

    def missing(at):
        folder = server.hub.published[MODEL][at]
        there = {path: (folder / path).read_bytes() for path in files if (folder / path).exists()}
        return {path: content for path, content in files.items() if there.get(path) != content}

    return commits.propose(MODEL, TITLE, DESCRIPTION, head(server), missing)


class TestCommit:
    def test_it_has_all_files_small_and_large_and_its_address_is_returned(self, server):
        url = commit(server, {CARD: b"A card.", WEIGHTS: b"weights"})
        assert url == f"{server.hub.url}/{MODEL}/commit/{head(server)}"
        assert server.made == [(MODEL, "main", [CARD, WEIGHTS])]
        assert server.file(MODEL, "main", WEIGHTS) == b"weights"

    def test_it_goes_to_the_branch_that_is_named(self, server, tmp_path):
        server.hub.publish(MODEL, tmp_path / "child", revision="v2")
        commits.commit(MODEL, {CARD: b"x"}, head(server, "v2"), "A change", revision="v2")
        assert server.made == [(MODEL, "v2", [CARD])]

    def test_a_branch_that_moved_is_left_as_it_is(self, server):
        parent = head(server)
        server.push(MODEL, "main", {CARD: b"Theirs."})
        with pytest.raises(RepositoryError, match="fern/child: the branch changed during the check; run again"):
            commits.commit(MODEL, {CARD: b"Ours."}, parent, "A change")
        assert server.file(MODEL, "main", CARD) == b"Theirs."

    def test_a_card_in_another_encoding_is_not_even_sent(self, server):
        with pytest.raises(RepositoryError, match=r"the Hub accepts README\.md in UTF-8 only; save it as UTF-8"):
            commit(server, {CARD: b"M\xfcller"})
        assert server.hub.requests == []

    @pytest.mark.parametrize("fault", [faults.unavailable, faults.hung_up], ids=["503", "hung up"])
    def test_it_is_sent_once_even_if_no_answer_comes(self, server, fault):
        server.hub.plan(fault, "/commit/", times=ALWAYS)
        with pytest.raises(NetworkError):
            commit(server)
        assert len([request for request in server.hub.requests if "/commit/" in request]) == 1

    def test_its_progress_is_shown_on_a_terminal_only_and_bars_are_as_before(self, server, monkeypatch):
        error = StringIO()
        monkeypatch.setattr(sys, "stderr", error)
        before = are_progress_bars_disabled()
        commit(server, {WEIGHTS: b"weights"})
        assert error.getvalue() == ""
        assert are_progress_bars_disabled() is before


class TestPropose:
    def test_it_is_opened_then_updated_then_left_as_it_is(self, server):
        assert propose(server, {CARD: b"One."}) == f"Opened a pull request: {server.hub.url}/{MODEL}/discussions/1"
        tip = f"{server.hub.url}/{MODEL}/commit/"
        assert propose(server, {CARD: b"Two."}).startswith(f"Updated pull request 1: {tip}")
        assert propose(server, {CARD: b"Two."}) == "Pull request 1 is already up to date; nothing was written."
        assert [made[:2] for made in server.made] == [(MODEL, "refs/pr/1")] * 2
        assert head(server) != head(server, "refs/pr/1")

    def test_where_nothing_would_change_nobody_is_asked_who_writes(self, server):
        assert propose(server, {CONFIG: b"{}"}) == commits.SAME
        assert server.hub.requests == []

    def test_of_several_open_ones_the_latest_is_meant(self, server):
        for title in (TITLE, TITLE, "Something else"):
            server.propose(MODEL, "wren", title)
        server.propose(MODEL, "robin", TITLE)
        server.propose(MODEL, "wren", TITLE, status="closed")
        server.propose(MODEL, "wren", TITLE, pull_request=False)
        assert commits.open_proposal(MODEL, TITLE) == 2
        assert commits.open_proposal(MODEL, "Nothing of the kind") is None

    def test_without_an_account_it_says_how_to_get_one(self, server, monkeypatch):
        monkeypatch.delenv("HF_TOKEN")
        with pytest.raises(RepositoryError, match="writing needs an account; run `hf auth login` or set HF_TOKEN"):
            propose(server, {CARD: b"One."})


class TestSameFiles:
    def test_files_are_compared_by_content_and_some_may_differ(self, server):
        first = head(server)
        second = server.push(MODEL, "main", {CARD: b"A card."})
        third = server.push(MODEL, "main", {WEIGHTS: b"weights"})
        assert commits.same_files(MODEL, first, second, besides=[CARD])
        assert not commits.same_files(MODEL, first, second, besides=[])
        assert not commits.same_files(MODEL, second, third, besides=[CARD])

    def test_a_commit_that_is_gone_has_not_the_same_files(self, server):
        assert not commits.same_files(MODEL, "f" * 40, head(server), besides=[])

    def test_a_network_that_fails_is_not_the_answer_no(self, server):
        server.hub.plan(faults.unavailable, "/tree/", times=ALWAYS)
        with pytest.raises(NetworkError):
            commits.same_files(MODEL, head(server), server.push(MODEL, "main", {CARD: b"x"}), besides=[])
