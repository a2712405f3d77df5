from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest
from huggingface_hub import constants

from hf_lineage.errors import NetworkError, RepositoryError
from hf_lineage.hub import listing
from tests.server import faults, serving
from tests.server.answers import Answer
from tests.server.client import connect
from tests.server.hub import BEGINNING, Hub

ALWAYS = 10**6
LATER = "2026-11-30T00:00:00.000Z"


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


def hour(number):
    return BEGINNING + timedelta(hours=number)


def names(listing):
    return [each.model for each in listing.releases]


def pages(hub):
    return hub.requests.count("GET /api/models")


def test_all_models_of_an_author_come_the_latest_first_with_commit_and_date(hub):
    found = listing.since("fern", None)
    assert names(found) == [f"fern/m{number}" for number in (6, 5, 4, 3, 2, 1)]
    assert found.releases[0] == listing.Release("fern", "fern/m6", hub.commit("fern/m6", "main"), hour(6))
    assert (pages(hub), found.problems) == (3, ())


@pytest.mark.parametrize(("moment", "asked"), [(6, 1), (5, 2), (4, 2), (3, 3), (7, 1)])
def test_no_more_pages_are_asked_for_than_it_takes_to_see_something_older(hub, moment, asked):
    found = listing.since("fern", hour(moment))
    assert names(found) == [f"fern/m{number}" for number in range(6, moment - 1, -1)]
    assert pages(hub) == asked


def test_a_page_without_models_is_the_last_whatever_it_names_as_the_next(hub):
    endless = Answer(200, b"[]", {"Content-Type": "application/json", "Link": f'<{hub.url}/api/models>; rel="next"'})
    hub.plan(lambda right: endless, "/api/models", times=1000)
    with pytest.raises(RepositoryError, match="fern has no public models on the Hub"):
        listing.since("fern", None)
    assert pages(hub) == 1


def test_an_author_whose_models_are_all_older_is_no_problem_and_one_without_any_is(hub):
    assert listing.since("fern", datetime(2027, 1, 1, tzinfo=UTC)).releases == ()
    with pytest.raises(RepositoryError, match=r"nobody has no public models on the Hub; check the name"):
        listing.since("nobody", None)


@pytest.mark.parametrize(
    ("token", "remedy"), [("", "set HF_TOKEN"), ("hf_x", "whether the account of your token may read it")]
)
def test_who_has_a_token_is_not_told_to_set_one_for_an_account_without_models(hub, monkeypatch, token, remedy):
    monkeypatch.setattr("hf_lineage.hub.translation.get_token", lambda: token or None)
    with pytest.raises(RepositoryError, match=rf"has no public models on the Hub; check the name, or {remedy}$"):
        listing.since("nobody", None)


def test_a_page_that_is_put_off_is_asked_for_again(hub):
    hub.plan(faults.too_many(retry_after=7), "GET hub/api/models", skip=1)
    assert len(listing.since("fern", None).releases) == 6
    assert pages(hub) == 4


def test_a_hub_that_is_gone_is_the_networks_fault(hub):
    hub.plan(faults.hung_up, times=ALWAYS)
    for asked in (lambda: listing.since("fern", None), lambda: listing.current("fern/m1")):
        with pytest.raises(NetworkError, match="cannot be fetched from the Hub"):
            asked()


def test_without_a_network_the_list_is_given_up_at_once(tmp_path, monkeypatch):
    waited = connect(cast(Hub, SimpleNamespace(url="http://127.0.0.1:9")), tmp_path, monkeypatch)
    with pytest.raises(NetworkError, match="fern cannot be fetched from the Hub by HF_ENDPOINT"):
        listing.since("fern", None)
    assert waited == []


def test_offline_nothing_is_listed_and_nobody_is_told_to_download_an_author(hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for asked in (lambda: listing.since("fern", None), lambda: listing.current("fern/m1")):
        with pytest.raises(NetworkError, match=r"fern.* cannot be found on the Hub, because HF_HUB_OFFLINE forbids"):
            asked()


def test_one_model_goes_by_the_name_that_it_has_today(hub):
    hub.renamed["fern/former"] = "fern/m1"
    assert listing.current("fern/former").model == "fern/m1"
    with pytest.raises(RepositoryError, match="fern/gone is not on the Hub"):
        listing.current("fern/gone")


def test_more_models_than_can_be_true_are_not_listed(hub, monkeypatch):
    monkeypatch.setattr(listing, "MOST_LISTED", 5)
    with pytest.raises(RepositoryError, match="fern has more than 5 models that changed; give a later --since"):
        listing.since("fern", None)
    assert len(listing.since("fern", hour(2)).releases) == 5


@pytest.mark.parametrize(
    "odd",
    [
        {"id": "fern/x\n::error::owned\u202e", "sha": "0" * 40, "lastModified": LATER},
        {"id": "fern/" + "x" * 300, "sha": "0" * 40, "lastModified": LATER},
        {"id": "fern/../../etc", "sha": "0" * 40, "lastModified": LATER},
        {"id": "fern/<script>`|", "sha": "0" * 40, "lastModified": LATER},
        {"id": "x", "sha": "0" * 40, "lastModified": LATER},
        {"id": "fern/x", "sha": "../../etc/passwd", "lastModified": LATER},
        {"id": "fern/x", "sha": "0" * 40},
        {"id": ["fern/x"], "sha": 7},
    ],
    ids=lambda odd: ascii(odd["id"])[:20],
)
def test_what_can_be_no_model_is_a_problem_of_its_own(hub, odd):
    hub.odd = [odd]
    hub.page = 1000
    found = listing.since("fern", None)
    assert len(found.releases) == 6
    (problem,) = found.problems
    assert problem.isprintable()
    assert problem.endswith("cannot be a model; it is left out")
    assert len(problem) < 500


@pytest.mark.parametrize("odd", [{}, "x", [], {"id": "fern/x", "lastModified": 7}], ids=str)
def test_an_answer_that_the_hub_would_not_give_is_the_networks_fault(hub, odd):
    hub.odd = [odd]
    with pytest.raises(NetworkError, match=r"fern: this answer did not come from a Hub \(.*\); check HF_ENDPOINT"):
        listing.since("fern", None)
