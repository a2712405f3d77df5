"""Requests to the Hub are sent at a pace that the user bounds; those to its CDN are not counted."""

from types import SimpleNamespace

import pytest
from huggingface_hub import HfApi, constants, set_client_factory
from huggingface_hub.utils._http import default_client_factory

from hf_lineage.hub import pace


@pytest.fixture
def usual_client():
    yield
    set_client_factory(default_client_factory)


def test_whoever_comes_too_early_waits():
    waited = []
    passes = pace.Pace(60, waited.append)
    asked = SimpleNamespace(url=f"{constants.ENDPOINT}/api/models/org/name")
    for _ in range(3):
        passes(asked)
    assert [round(seconds) for seconds in waited] == [1, 2]


def test_other_places_are_not_counted():
    waited = []
    passes = pace.Pace(1, waited.append)
    for _ in range(3):
        passes(SimpleNamespace(url="https://cdn.example/file"))
    assert waited == []


def test_the_client_keeps_the_pace(online, usual_client, monkeypatch):
    waited = []
    monkeypatch.setattr(pace.time, "sleep", waited.append)
    monkeypatch.setattr(pace.Pace.__init__, "__defaults__", (waited.append,))
    pace.limit(120)
    for name in online.published:
        HfApi().model_info(name)
    assert len(waited) == len(online.published) - 1
