"""Fixtures that several modules share."""

import pytest

from tests.hub import serving
from tests.hub.client import connect
from tests.hub.commits import Commits
from tests.models import card, family, fine_tuned, tiny_llama
from tests.signatures import publish

LAYERS = 8


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A local hub of one base and one model that declares it; nothing is asked of the real one."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return family(tmp_path)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A Hub on which a base's owner may write, and a fine-tune of it, too large to come with their headers."""
    base = tiny_llama(tmp_path / "base", layers=LAYERS, width=64)
    (tmp_path / "commits").mkdir()
    with serving() as hub:
        hub.publish("acme/base", base)
        hub.publish("fern/child", card(fine_tuned(base, tmp_path / "child"), "acme/base", "finetune"))
        connect(hub, tmp_path / "hub", monkeypatch)
        monkeypatch.setenv("HF_TOKEN", "hf_averysecrettoken")
        yield Commits(hub, tmp_path / "commits", account="acme").attach()


@pytest.fixture
def published(server):
    """The base's owner has published its signature."""
    publish(server)
    return server


@pytest.fixture
def without_cache(monkeypatch):
    """Nothing that this machine kept is found again."""
    monkeypatch.setattr("hf_lineage.cache.find", lambda *arguments: None)


@pytest.fixture(autouse=True)
def own_files(tmp_path_factory, monkeypatch):
    """Every test has a cache and a configuration of its own, both empty."""
    folder = tmp_path_factory.mktemp("own")
    monkeypatch.setenv("HF_LINEAGE_CACHE", str(folder / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    return folder
