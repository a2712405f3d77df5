"""What the Hub says of files and of their authors, and what becomes of a check where it says nonsense or nothing."""

import pytest

from hf_lineage.errors import RepositoryError
from hf_lineage.hub import trees
from tests.models import WEIGHTS
from tests.server import faults
from tests.server.answers import Answer
from tests.server.client import cached
from tests.signatures import BASE, FILE, check

ALWAYS = 10**6
PLACES = {
    "list of files": f"/api/models/{BASE}/tree/",
    "what put them there": "/paths-info/",
    "commits": "/commits/",
    "signature": f"resolve/{{}}/{FILE}",
    "its content": f"cdn/{BASE}/{{}}/{FILE}",
}
FAULTS = {"503": faults.unavailable, "404": faults.missing, "hung up": faults.hung_up}
NONSENSE = (b"<html>", b"{}", b"[1]", b'[{"type": "file"}]')


@pytest.fixture(autouse=True)
def nothing_cached(without_cache):
    """What is published is all there is."""
    trees.tree.cache_clear()


def place(hub, name):
    return PLACES[name].format(hub.commit(BASE, "main"))


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.crossed("name", "fault")
def test_what_is_not_to_be_had_is_a_line_and_the_weights_are_read(published, tmp_path, name, fault):
    if name == "list of files":
        # The client keeps the list of a commit that it has seen.
        check("--set", "recompute=yes")
    published.hub.plan(FAULTS[fault], place(published.hub, name), times=ALWAYS)
    claim, said = check()
    assert (claim["verdict"], claim["signatures"]["base"]["kind"]) == ("RELATED", "weights")
    assert said.startswith(f"{BASE}: the signature in {BASE}")
    assert said.count("\n") == 1
    assert not [file for file in cached(tmp_path / "hub") if WEIGHTS in file]
    published.hub.faults.clear()
    claim, said = check()
    assert (claim["signatures"]["base"]["kind"], said) == ("published", "")


@pytest.mark.parametrize("name", PLACES)
def test_what_goes_wrong_once_changes_nothing(published, name):
    if name == "list of files":
        check("--set", "recompute=yes")
    published.hub.plan(faults.unavailable, place(published.hub, name))
    claim, said = check()
    assert (claim["signatures"]["base"]["kind"], said) == ("published", "")


@pytest.mark.parametrize("body", NONSENSE)
@pytest.mark.parametrize("name", ["list of files", "what put them there", "commits"])
@pytest.mark.crossed("name", "body")
def test_nonsense_is_a_line_too(published, name, body):
    if name == "list of files":
        check("--set", "recompute=yes")
    said = {"Content-Type": "application/json"}
    published.hub.plan(lambda right: Answer(200, body, said), place(published.hub, name), times=ALWAYS)
    claim, said = check()
    assert claim["signatures"]["base"]["kind"] == "weights"
    assert said.count("\n") == ((name, body) != ("list of files", b"{}")), "no files are no nonsense"


def test_large_files_are_named_by_their_sha256_and_small_ones_as_git_does(server):
    found = trees.tree(BASE, server.hub.commit(BASE, "main"))
    assert {file: (entry.size > 1000, len(entry.content)) for file, entry in found.items()} == {
        WEIGHTS: (True, 64),
        "config.json": (False, 40),
    }


def test_a_commit_is_listed_once(server):
    commit = server.hub.commit(BASE, "main")
    assert trees.tree(BASE, commit) == trees.tree(BASE, commit)
    assert len([request for request in server.hub.requests if "/tree/" in request]) == 1


def test_a_branch_is_where_it_stands(server):
    assert trees.head(BASE) == server.hub.commit(BASE, "main")
    with pytest.raises(RepositoryError, match="has no such revision"):
        trees.head(BASE, "gone")


@pytest.mark.parametrize(
    ("authors", "members", "owned"),
    [
        (("acme",), None, True),
        (("ann",), None, False),
        (("ann",), ("bob", "ann"), True),
        (("ann", "acme"), ("ann",), True),
        (("ann", "mallory"), ("ann",), False),
        (("ann",), ("bob",), False),
        (("",), ("bob",), False),
    ],
)
def test_the_owner_is_the_name_before_the_slash_or_a_member_of_it(server, authors, members, owned):
    if members:
        server.hub.members["acme"] = members
    commit = server.push(BASE, "main", {FILE: b"x"}, *authors)
    server.push(BASE, "main", {"README.md": b"x"}, "mallory")
    head = server.hub.commit(BASE, "main")
    assert trees.owner_commits(BASE, head, [FILE]) == ((commit,) if owned else ())


def test_of_several_files_every_commit_counts(server):
    first = server.push(BASE, "main", {"lineage/a": b"x"})
    second = server.push(BASE, "main", {"lineage/b": b"x"})
    assert trees.owner_commits(BASE, second, ["lineage/a", "lineage/b"]) == tuple(sorted((first, second)))
    third = server.push(BASE, "main", {"lineage/b": b"y"}, "mallory")
    assert trees.owner_commits(BASE, third, ["lineage/a", "lineage/b"]) == ()
    assert trees.owner_commits(BASE, third, ["lineage/a", "lineage/gone"]) == ()
