"""Commits and pull requests, what is sent once and found again; files at a commit, and the models of an author."""

import sys
from io import StringIO
from types import SimpleNamespace
from typing import cast

import pytest
from huggingface_hub import constants
from huggingface_hub.utils.tqdm import are_progress_bars_disabled

from hf_lineage.errors import NetworkError, RepositoryError
from hf_lineage.hub import client, commits
from tests.server import faults, serving
from tests.server.client import connect
from tests.server.commits import Commits
from tests.server.hub import Answer, Hub

MODEL, CARD, CONFIG, WEIGHTS = "fern/child", "README.md", "config.json", "model.safetensors"
BASE, TITLE, DESCRIPTION, ALWAYS = "acme/base", "A title", "A description.", 10**6


@pytest.fixture(autouse=True)
def nothing_listed():
    """No list of files is known from another test."""
    commits.tree.cache_clear()


def taking(hub, folder):
    for name in ("child", "commits"):
        (folder / name).mkdir()
    (folder / "child" / CONFIG).write_bytes(b"{}")
    hub.publish(MODEL, folder / "child")
    return Commits(hub, folder / "commits").attach()


@pytest.fixture
def writable(online, tmp_path, monkeypatch):
    """A Hub with one model, which takes commits of wren's."""
    monkeypatch.setenv("HF_TOKEN", "hf_averysecrettoken")
    return taking(online, tmp_path)


def head(writable, revision="main"):
    return writable.hub.commit(MODEL, revision)


def commit(writable, files=None, **where):
    return commits.commit(MODEL, files or {CARD: b"A card."}, head(writable), "A change", **where)


def propose(writable, files):
    """Propose whatever of these files a commit does not have."""

    def missing(at):
        folder = writable.hub.published[MODEL][at]
        there = {path: (folder / path).read_bytes() for path in files if (folder / path).exists()}
        return {path: content for path, content in files.items() if there.get(path) != content}

    return commits.propose(MODEL, TITLE, DESCRIPTION, head(writable), missing)


class TestCommit:
    def test_it_has_all_files_and_shows_progress_on_a_terminal_only(self, writable, tmp_path, monkeypatch):
        """Its address is returned, and bars are as before; a card in another encoding is not even sent."""
        with pytest.raises(RepositoryError, match=r"the Hub accepts README\.md in UTF-8 only; save it as UTF-8"):
            commit(writable, {CARD: b"M\xfcller"})
        assert writable.hub.requests == []
        error, before = StringIO(), are_progress_bars_disabled()
        monkeypatch.setattr(sys, "stderr", error)
        url = commit(writable, {CARD: b"A card.", WEIGHTS: b"weights"})
        assert url == f"{writable.hub.url}/{MODEL}/commit/{head(writable)}"
        assert writable.made == [(MODEL, "main", [CARD, WEIGHTS])]
        assert writable.file(MODEL, "main", WEIGHTS) == b"weights"
        assert (error.getvalue(), are_progress_bars_disabled()) == ("", before)
        writable.hub.publish(MODEL, tmp_path / "child", revision="v2")
        commits.commit(MODEL, {CARD: b"x"}, head(writable, "v2"), "A change", revision="v2")
        assert writable.made[1:] == [(MODEL, "v2", [CARD])]

    def test_a_branch_that_moved_is_left_as_it_is_and_nothing_is_sent_twice(self, writable):
        parent = head(writable)
        writable.push(MODEL, "main", {CARD: b"Theirs."})
        with pytest.raises(RepositoryError, match="fern/child: the branch changed during the check; run again"):
            commits.commit(MODEL, {CARD: b"Ours."}, parent, "A change")
        assert writable.file(MODEL, "main", CARD) == b"Theirs."
        for fault in (faults.unavailable, faults.hung_up):  # it is sent once even if no answer comes
            writable.hub.forget()
            writable.hub.plan(fault, "/commit/")
            with pytest.raises(NetworkError):
                commit(writable)
            assert len([request for request in writable.hub.requests if "/commit/" in request]) == 1


class TestPropose:
    def test_of_several_open_ones_the_latest_is_meant(self, writable):
        for title in (TITLE, TITLE, "Something else"):
            writable.propose(MODEL, "wren", title)
        writable.propose(MODEL, "robin", TITLE)
        writable.propose(MODEL, "wren", TITLE, status="closed")
        writable.propose(MODEL, "wren", TITLE, pull_request=False)
        assert commits.open_proposal(MODEL, TITLE) == 2
        assert commits.open_proposal(MODEL, "Nothing of the kind") is None

    def test_it_is_opened_once_and_without_an_account_it_says_how_to_get_one(self, writable, monkeypatch):
        assert propose(writable, {CARD: b"One."}) == f"Opened a pull request: {writable.hub.url}/{MODEL}/discussions/1"
        assert propose(writable, {CARD: b"One."}) == "Pull request 1 is already up to date; nothing was written."
        monkeypatch.delenv("HF_TOKEN")
        writable.hub.forget()
        assert (propose(writable, {CONFIG: b"{}"}), writable.hub.requests) == (commits.SAME, [])
        with pytest.raises(RepositoryError, match="writing needs an account; run `hf auth login` or set HF_TOKEN"):
            propose(writable, {CARD: b"Two."})


def test_files_of_two_commits_are_compared_by_content_and_some_may_differ(writable):
    first = head(writable)
    second = writable.push(MODEL, "main", {CARD: b"A card."})
    third = writable.push(MODEL, "main", {WEIGHTS: b"weights"})
    assert commits.same_files(MODEL, first, second, besides=[CARD])
    assert not commits.same_files(MODEL, first, second, besides=[])
    assert not commits.same_files(MODEL, second, third, besides=[CARD])
    assert not commits.same_files(MODEL, "f" * 40, first, besides=[]), "a commit that is gone"
    writable.hub.plan(faults.unavailable, "/tree/", times=ALWAYS)
    with pytest.raises(NetworkError):
        commits.same_files(MODEL, first, writable.push(MODEL, "main", {CARD: b"x"}), besides=[])


def test_a_branch_is_where_it_stands_and_a_commit_is_listed_once_with_its_digests(server):
    commit = server.hub.commit(BASE, "main")
    assert commits.head(BASE) == commit
    with pytest.raises(RepositoryError, match="has no such revision"):
        commits.head(BASE, "gone")
    found = commits.tree(BASE, commit)
    sizes = {file: (entry.size > 1000, len(entry.content)) for file, entry in found.items()}
    assert (sizes, commits.tree(BASE, commit)) == ({WEIGHTS: (True, 64), "config.json": (False, 40)}, found)
    assert len([request for request in server.hub.requests if "/tree/" in request]) == 1


def test_digests_are_listed_of_the_folder_that_is_meant_and_of_no_other(writable):
    inside = f"part/{WEIGHTS}"
    commit = writable.push(MODEL, "main", {inside: b"numbers", WEIGHTS: b"others"})
    assert [[*client.digests(MODEL, commit, folder)] for folder in ("", "part")] == [[WEIGHTS], [inside]]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub on which fern has published six models, an hour apart, two on a page of a list."""
    with serving() as running:
        running.page = 2
        for number in range(1, 7):
            (tmp_path / str(number)).mkdir()
            running.publish(f"fern/m{number}", tmp_path / str(number))
        running.publish("acme/base", tmp_path / "1")
        connect(running, tmp_path / "cache", monkeypatch)
        yield running


def test_an_account_without_models_is_told_and_a_page_without_them_the_last(hub, monkeypatch):
    for token, remedy in ((None, "set HF_TOKEN"), ("hf_x", "whether the account of your token may read it")):
        with monkeypatch.context() as patched:
            patched.setattr("hf_lineage.hub.errors.get_token", lambda token=token: token)
            with pytest.raises(
                RepositoryError, match=rf"has no public models on the Hub; check the name, or {remedy}$"
            ):
                commits.list_models("nobody")
    hub.forget()
    endless = Answer(200, b"[]", {"Content-Type": "application/json", "Link": f'<{hub.url}/api/models>; rel="next"'})
    hub.plan(lambda right: endless, "/api/models", times=1000)
    with pytest.raises(RepositoryError, match="fern has no public models on the Hub"):
        commits.list_models("fern")
    assert hub.requests == ["GET /api/models"]


def test_models_of_an_author_come_the_latest_first_and_a_page_is_asked_for_again(hub):
    hub.plan(faults.too_many(retry_after=7), "GET hub/api/models", skip=1)
    latest = [f"fern/m{number}@{hub.commit(f'fern/m{number}', 'main')}" for number in (6, 5, 4, 3, 2, 1)]
    assert (commits.list_models("fern"), hub.requests.count("GET /api/models")) == (latest, 4)
    names = ("fern/x\n::error::owned\u202e", "fern/" + "x" * 300, "fern/../../etc", "fern/<script>`|", "x")
    hub.odd = [{"id": name, "sha": "0" * 40} for name in names]
    hub.odd += [{"id": "fern/x", "sha": "../../etc/passwd"}, {"id": ["fern/x"], "sha": 7}]
    hub.page = 1000
    assert commits.list_models("fern") == latest, "what can be no model is left out"


def test_a_hub_that_is_gone_or_forbidden_lists_nothing_nor_more_than_can_be_true(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(commits, "MOST_LISTED", 5)
    with pytest.raises(RepositoryError, match="fern has more than 5 models; name those to read"):
        commits.list_models("fern")
    hub.plan(faults.hung_up, times=ALWAYS)
    with pytest.raises(NetworkError, match="cannot be fetched from the Hub"):
        commits.list_models("fern")
    waited = connect(cast(Hub, SimpleNamespace(url="http://127.0.0.1:9")), tmp_path, monkeypatch)
    with pytest.raises(NetworkError, match="fern cannot be fetched from the Hub by HF_ENDPOINT"):
        commits.list_models("fern")
    assert waited == [], "it is given up at once"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(RepositoryError, match=r"fern cannot be found on the Hub, because HF_HUB_OFFLINE forbids"):
        commits.list_models("fern")


ODD = {
    "a page": b"<html>", "nothing": b"", "no UTF-8": b"\xff", "too deep": b"[" * 100_000,
    "null": b"null", "a number": b"7", "a text": b'"x"', "a list of numbers": b"[1]",
}  # fmt: skip
NO_CONTENT = {
    "no size": b'[{"type": "file", "path": "x", "size": "y", "oid": "0"}]',
    "no content": b'[{"type": "file", "path": "x", "size": 1, "oid": 7}]',
}
NO_MODELS = {"no model": b"[{}]", "a text for one": b'["x"]', "a list for one": b"[[]]"}
NO_NAMES = {"no fields": b"[{}]", "no path": b'[{"type": "file"}]'}
NO_TEXT = {"a number for a name": b'{"id": 7, "sha": 7}', "no commit": b'{"id": null}'}
MODELS, TREE = f"GET hub/api/models/{MODEL}", "/tree/"


def sent(file, head):
    return commits.commit(MODEL, {file: b"x"}, head, "A change")


PATHS = {
    "whose model it is": (MODELS, lambda head: client.snapshot(MODEL, None, [CONFIG]), ODD | NO_TEXT),
    "files of a snapshot": (TREE, lambda head: client.snapshot(MODEL, None, [CONFIG]), ODD | NO_NAMES),
    "names of files": (TREE, lambda head: client.listing(MODEL, head), ODD | NO_NAMES),
    "digests": (TREE, lambda head: client.digests(MODEL, head), ODD | NO_NAMES),
    "name of today": (MODELS, lambda head: client.current_name(MODEL, head), ODD | NO_TEXT),
    "tree": (TREE, lambda head: commits.tree(MODEL, head), ODD | NO_NAMES | NO_CONTENT),
    "branch": (MODELS, lambda head: commits.head(MODEL), ODD | NO_TEXT),
    "some files": ("/paths-info/", lambda head: commits.fetch_file(MODEL, head, CONFIG, largest=9), ODD | NO_NAMES),
    "models of an author": ("GET hub/api/models", lambda head: commits.list_models("fern"), ODD | NO_MODELS),
    "account": ("whoami", lambda head: commits.open_proposal(MODEL, "A title"), ODD),
    "pull requests": ("/discussions", lambda head: commits.open_proposal(MODEL, "A title"), ODD),
    "examined card": ("validate-yaml", lambda head: sent(CARD, head), ODD),
    "how to send": ("/preupload/", lambda head: sent(CONFIG, head), ODD),
    "where to send": ("/objects/batch", lambda head: sent(WEIGHTS, head), ODD),
    "commit": ("/commit/", lambda head: sent(CONFIG, head), ODD),
}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A Hub with one model, which takes commits."""
    with serving() as hub:
        room = taking(hub, tmp_path_factory.mktemp("malformed"))
        (hub.published[MODEL]["main"] / WEIGHTS).write_bytes(b"weights")
        yield room


@pytest.fixture
def answering(room, tmp_path, monkeypatch):
    connect(room.hub, tmp_path / "cache", monkeypatch)
    monkeypatch.setenv("HF_TOKEN", "hf_averysecrettoken")
    room.hub.faults.clear()
    return room.hub


@pytest.mark.parametrize(("path", "body"), [(path, body) for path, (_, _, odd) in PATHS.items() for body in odd])
def test_an_answer_of_another_form_is_the_networks_fault_and_said_in_one_line(answering, path, body):
    where, ask, bodies = PATHS[path]
    answer = Answer(200, bodies[body], {"Content-Type": "application/json"})
    answering.plan(lambda right: answer, where, times=ALWAYS)
    with pytest.raises(NetworkError) as found:
        ask(answering.commit(MODEL, "main"))
    said = str(found.value)
    assert "fern" in said
    assert "this answer did not come from a Hub (" in said or "cannot be a model" in said
    assert "secret" not in said


@pytest.mark.parametrize("path", PATHS)
def test_the_right_answer_is_taken(answering, path):
    _, ask, _ = PATHS[path]
    ask(answering.commit(MODEL, "main"))


def test_a_file_without_the_headers_of_the_hub_is_no_answer_of_the_hub(answering):
    answering.plan(lambda right: Answer(200), "HEAD hub/", times=ALWAYS)
    no_answer = r"did not come from a Hub \(FileMetadataError: .*; check HF_ENDPOINT"
    with pytest.raises(NetworkError, match=no_answer):
        client.snapshot(MODEL, None, [CONFIG])
    with pytest.raises(NetworkError, match=no_answer):
        commits.fetch_file(MODEL, answering.commit(MODEL, "main"), CONFIG)
