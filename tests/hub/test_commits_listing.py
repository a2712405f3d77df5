"""What the Hub says of files, and of the models of an author."""

from types import SimpleNamespace
from typing import cast

import pytest
from huggingface_hub import constants

from hf_lineage.errors import NetworkError, RepositoryError
from hf_lineage.hub import commits
from tests.models import WEIGHTS
from tests.server import faults, serving
from tests.server.answers import Answer
from tests.server.client import connect
from tests.server.hub import Hub

ALWAYS = 10**6

BASE = "acme/base"


@pytest.fixture(autouse=True)
def nothing_listed():
    """No list of files is known from another test."""
    commits.tree.cache_clear()


def test_a_commit_is_listed_once_with_the_sha256_of_large_files(server):
    commit = server.hub.commit(BASE, "main")
    found = commits.tree(BASE, commit)
    sizes = {file: (entry.size > 1000, len(entry.content)) for file, entry in found.items()}
    assert sizes == {WEIGHTS: (True, 64), "config.json": (False, 40)}
    assert commits.tree(BASE, commit) == found
    assert len([request for request in server.hub.requests if "/tree/" in request]) == 1


def test_a_branch_is_where_it_stands(server):
    assert commits.head(BASE) == server.hub.commit(BASE, "main")
    with pytest.raises(RepositoryError, match="has no such revision"):
        commits.head(BASE, "gone")


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
    assert commits.published("fern") == [f"{name}@{hub.commit(name, 'main')}" for name in names]
    assert pages(hub) == 3


def test_a_page_without_models_is_the_last_whatever_it_names_as_the_next(hub):
    endless = Answer(200, b"[]", {"Content-Type": "application/json", "Link": f'<{hub.url}/api/models>; rel="next"'})
    hub.plan(lambda right: endless, "/api/models", times=1000)
    with pytest.raises(RepositoryError, match="fern has no public models on the Hub"):
        commits.published("fern")
    assert pages(hub) == 1


@pytest.mark.parametrize(
    ("token", "remedy"), [("", "set HF_TOKEN"), ("hf_x", "whether the account of your token may read it")]
)
def test_who_has_a_token_is_not_told_to_set_one_for_an_account_without_models(hub, monkeypatch, token, remedy):
    monkeypatch.setattr("hf_lineage.hub.errors.get_token", lambda: token or None)
    with pytest.raises(RepositoryError, match=rf"has no public models on the Hub; check the name, or {remedy}$"):
        commits.published("nobody")


def test_a_page_that_is_put_off_is_asked_for_again(hub):
    hub.plan(faults.too_many(retry_after=7), "GET hub/api/models", skip=1)
    assert len(commits.published("fern")) == 6
    assert pages(hub) == 4


def test_a_hub_that_is_gone_is_the_networks_fault(hub):
    hub.plan(faults.hung_up, times=ALWAYS)
    with pytest.raises(NetworkError, match="cannot be fetched from the Hub"):
        commits.published("fern")


def test_without_a_network_the_list_is_given_up_at_once(tmp_path, monkeypatch):
    waited = connect(cast(Hub, SimpleNamespace(url="http://127.0.0.1:9")), tmp_path, monkeypatch)
    with pytest.raises(NetworkError, match="fern cannot be fetched from the Hub by HF_ENDPOINT"):
        commits.published("fern")
    assert waited == []


def test_offline_nothing_is_listed_and_nobody_is_told_to_download_an_author(hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(RepositoryError, match=r"fern cannot be found on the Hub, because HF_HUB_OFFLINE forbids"):
        commits.published("fern")


def test_more_models_than_can_be_true_are_not_listed(hub, monkeypatch):
    monkeypatch.setattr(commits, "MOST_LISTED", 5)
    with pytest.raises(RepositoryError, match="fern has more than 5 models; name those to read"):
        commits.published("fern")


def test_what_can_be_no_model_is_left_out(hub):
    names = ("fern/x\n::error::owned\u202e", "fern/" + "x" * 300, "fern/../../etc", "fern/<script>`|", "x")
    hub.odd = [{"id": name, "sha": "0" * 40} for name in names]
    hub.odd += [{"id": "fern/x", "sha": "../../etc/passwd"}, {"id": ["fern/x"], "sha": 7}]
    hub.page = 1000
    assert commits.published("fern") == [f"fern/m{n}@{hub.commit(f'fern/m{n}', 'main')}" for n in (6, 5, 4, 3, 2, 1)]


@pytest.mark.parametrize("odd", [{}, "x", []], ids=str)
def test_an_answer_that_the_hub_would_not_give_is_the_networks_fault(hub, odd):
    hub.odd = [odd]
    with pytest.raises(NetworkError, match=r"fern: this answer did not come from a Hub \(.*\); check HF_ENDPOINT"):
        commits.published("fern")
