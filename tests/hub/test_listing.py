"""What the Hub says of files and of their authors, and what becomes of a check where it says nonsense or nothing."""

from types import SimpleNamespace
from typing import cast

import pytest
from huggingface_hub import constants

from hf_lineage.errors import NetworkError, RepositoryError
from hf_lineage.hub import listing
from tests.models import WEIGHTS
from tests.server import faults, serving
from tests.server.answers import Answer
from tests.server.client import cached, connect
from tests.server.hub import Hub
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
    listing.tree.cache_clear()


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
    found = listing.tree(BASE, server.hub.commit(BASE, "main"))
    assert {file: (entry.size > 1000, len(entry.content)) for file, entry in found.items()} == {
        WEIGHTS: (True, 64),
        "config.json": (False, 40),
    }


def test_a_commit_is_listed_once(server):
    commit = server.hub.commit(BASE, "main")
    assert listing.tree(BASE, commit) == listing.tree(BASE, commit)
    assert len([request for request in server.hub.requests if "/tree/" in request]) == 1


def test_a_branch_is_where_it_stands(server):
    assert listing.head(BASE) == server.hub.commit(BASE, "main")
    with pytest.raises(RepositoryError, match="has no such revision"):
        listing.head(BASE, "gone")


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
    assert listing.owner_commits(BASE, head, [FILE]) == ((commit,) if owned else ())


def test_of_several_files_every_commit_counts(server):
    first = server.push(BASE, "main", {"lineage/a": b"x"})
    second = server.push(BASE, "main", {"lineage/b": b"x"})
    assert listing.owner_commits(BASE, second, ["lineage/a", "lineage/b"]) == tuple(sorted((first, second)))
    third = server.push(BASE, "main", {"lineage/b": b"y"}, "mallory")
    assert listing.owner_commits(BASE, third, ["lineage/a", "lineage/b"]) == ()
    assert listing.owner_commits(BASE, third, ["lineage/a", "lineage/gone"]) == ()


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


def pages(hub):
    return hub.requests.count("GET /api/models")


def test_all_models_of_an_author_come_the_latest_first_with_their_commits(hub):
    names = [f"fern/m{number}" for number in (6, 5, 4, 3, 2, 1)]
    assert listing.published("fern") == [f"{name}@{hub.commit(name, 'main')}" for name in names]
    assert pages(hub) == 3


def test_a_page_without_models_is_the_last_whatever_it_names_as_the_next(hub):
    endless = Answer(200, b"[]", {"Content-Type": "application/json", "Link": f'<{hub.url}/api/models>; rel="next"'})
    hub.plan(lambda right: endless, "/api/models", times=1000)
    with pytest.raises(RepositoryError, match="fern has no public models on the Hub"):
        listing.published("fern")
    assert pages(hub) == 1


@pytest.mark.parametrize(
    ("token", "remedy"), [("", "set HF_TOKEN"), ("hf_x", "whether the account of your token may read it")]
)
def test_who_has_a_token_is_not_told_to_set_one_for_an_account_without_models(hub, monkeypatch, token, remedy):
    monkeypatch.setattr("hf_lineage.hub.translation.get_token", lambda: token or None)
    with pytest.raises(RepositoryError, match=rf"has no public models on the Hub; check the name, or {remedy}$"):
        listing.published("nobody")


def test_a_page_that_is_put_off_is_asked_for_again(hub):
    hub.plan(faults.too_many(retry_after=7), "GET hub/api/models", skip=1)
    assert len(listing.published("fern")) == 6
    assert pages(hub) == 4


def test_a_hub_that_is_gone_is_the_networks_fault(hub):
    hub.plan(faults.hung_up, times=ALWAYS)
    with pytest.raises(NetworkError, match="cannot be fetched from the Hub"):
        listing.published("fern")


def test_without_a_network_the_list_is_given_up_at_once(tmp_path, monkeypatch):
    waited = connect(cast(Hub, SimpleNamespace(url="http://127.0.0.1:9")), tmp_path, monkeypatch)
    with pytest.raises(NetworkError, match="fern cannot be fetched from the Hub by HF_ENDPOINT"):
        listing.published("fern")
    assert waited == []


def test_offline_nothing_is_listed_and_nobody_is_told_to_download_an_author(hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(NetworkError, match=r"fern cannot be found on the Hub, because HF_HUB_OFFLINE forbids"):
        listing.published("fern")


def test_more_models_than_can_be_true_are_not_listed(hub, monkeypatch):
    monkeypatch.setattr(listing, "MOST_LISTED", 5)
    with pytest.raises(RepositoryError, match="fern has more than 5 models; name those to read"):
        listing.published("fern")


@pytest.mark.parametrize(
    "odd",
    [
        {"id": "fern/x\n::error::owned\u202e", "sha": "0" * 40},
        {"id": "fern/" + "x" * 300, "sha": "0" * 40},
        {"id": "fern/../../etc", "sha": "0" * 40},
        {"id": "fern/<script>`|", "sha": "0" * 40},
        {"id": "x", "sha": "0" * 40},
        {"id": "fern/x", "sha": "../../etc/passwd"},
        {"id": ["fern/x"], "sha": 7},
    ],
    ids=lambda odd: ascii(odd["id"])[:20],
)
def test_what_can_be_no_model_is_left_out(hub, odd):
    hub.odd = [odd]
    hub.page = 1000
    assert len(listing.published("fern")) == 6


@pytest.mark.parametrize("odd", [{}, "x", []], ids=str)
def test_an_answer_that_the_hub_would_not_give_is_the_networks_fault(hub, odd):
    hub.odd = [odd]
    with pytest.raises(NetworkError, match=r"fern: this answer did not come from a Hub \(.*\); check HF_ENDPOINT"):
        listing.published("fern")
