"""An answer that the Hub would not give: one error for it, whatever was asked for, and never a traceback."""

import pytest

from hf_lineage.errors import NetworkError
from hf_lineage.hub import client, commits
from tests.server import serving
from tests.server.answers import Answer
from tests.server.client import connect
from tests.server.commits import Commits

MODEL, FILE, WEIGHTS, CARD = "fern/child", "config.json", "model.safetensors", "README.md"
NO_JSON = {"a page": b"<html>", "nothing": b"", "no UTF-8": b"\xff", "too deep": b"[" * 100_000}
NO_OBJECTS = {"null": b"null", "a number": b"7", "a text": b'"x"', "a list of numbers": b"[1]"}
ODD = NO_JSON | NO_OBJECTS
NO_NAMES = {"no fields": b"[{}]", "no path": b'[{"type": "file"}]'}
NO_TEXT = {"a number for a name": b'{"id": 7, "sha": 7}', "no commit": b'{"id": null}'}
NO_SIZE = {"no size": b'[{"type": "file", "path": "x", "size": "y", "oid": "0"}]'}
NO_CONTENT = {"no content": b'[{"type": "file", "path": "x", "size": 1, "oid": 7}]'}
MODELS, TREE = f"GET hub/api/models/{MODEL}", "/tree/"


def commit(file, head):
    return commits.commit(MODEL, {file: b"x"}, head, "A change")


PATHS = {
    "whose model it is": (MODELS, lambda head: client.snapshot(MODEL, None, [FILE]), ODD | NO_TEXT),
    "files of a snapshot": (TREE, lambda head: client.snapshot(MODEL, None, [FILE]), ODD | NO_NAMES),
    "names of files": (TREE, lambda head: client.listing(MODEL, head), ODD | NO_NAMES),
    "digests": (TREE, lambda head: client.digests(MODEL, head), ODD | NO_NAMES),
    "name of today": (MODELS, lambda head: client.current_name(MODEL, head), ODD | NO_TEXT),
    "tree": (TREE, lambda head: commits.tree(MODEL, head), ODD | NO_NAMES | NO_SIZE | NO_CONTENT),
    "branch": (MODELS, lambda head: commits.head(MODEL), ODD | NO_TEXT),
    "some files": ("/paths-info/", lambda head: commits.fetched(MODEL, head, FILE, largest=9), ODD | NO_NAMES),
    "models of an author": ("GET hub/api/models", lambda head: commits.published("fern"), ODD),
    "account": ("whoami", lambda head: commits.open_proposal(MODEL, "A title"), ODD),
    "pull requests": ("/discussions", lambda head: commits.open_proposal(MODEL, "A title"), ODD),
    "examined card": ("validate-yaml", lambda head: commit(CARD, head), ODD),
    "how to send": ("/preupload/", lambda head: commit(FILE, head), ODD),
    "where to send": ("/objects/batch", lambda head: commit(WEIGHTS, head), ODD),
    "commit": ("/commit/", lambda head: commit(FILE, head), ODD),
}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A Hub with one model, which takes commits."""
    folder = tmp_path_factory.mktemp("malformed")
    (folder / "child").mkdir()
    (folder / "child" / FILE).write_bytes(b"{}")
    (folder / "child" / WEIGHTS).write_bytes(b"weights")
    (folder / "commits").mkdir()
    with serving() as hub:
        hub.publish(MODEL, folder / "child")
        yield Commits(hub, folder / "commits").attach()


@pytest.fixture
def hub(room, tmp_path, monkeypatch):
    connect(room.hub, tmp_path / "cache", monkeypatch)
    monkeypatch.setenv("HF_TOKEN", "hf_averysecrettoken")
    commits.tree.cache_clear()
    room.hub.faults.clear()
    return room.hub


@pytest.mark.parametrize(("path", "body"), [(path, body) for path, (_, _, odd) in PATHS.items() for body in odd])
def test_it_is_the_networks_fault_and_says_so_in_one_line(hub, path, body):
    where, ask, bodies = PATHS[path]
    answer = Answer(200, bodies[body], {"Content-Type": "application/json"})
    hub.plan(lambda right: answer, where, times=10**6)
    with pytest.raises(NetworkError) as found:
        ask(hub.commit(MODEL, "main"))
    said = str(found.value)
    assert "fern" in said
    assert "this answer did not come from a Hub (" in said or "cannot be a model" in said
    assert "secret" not in said


@pytest.mark.parametrize("path", PATHS)
def test_the_right_answer_is_taken(hub, path):
    _, ask, _ = PATHS[path]
    ask(hub.commit(MODEL, "main"))


def test_a_file_without_the_headers_of_the_hub_is_no_answer_of_the_hub(hub):
    hub.plan(lambda right: Answer(200), "HEAD hub/", times=10**6)
    for ask in (
        lambda: client.snapshot(MODEL, None, [FILE]),
        lambda: commits.fetched(MODEL, hub.commit(MODEL, "main"), FILE),
    ):
        with pytest.raises(NetworkError, match=r"did not come from a Hub \(FileMetadataError: .*; check HF_ENDPOINT"):
            ask()
