"""Fixtures that several modules share."""

import pytest

from tests.models import family


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A local hub of one base and one model that declares it; nothing is asked of the real one."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return family(tmp_path)


@pytest.fixture(autouse=True)
def own_files(tmp_path_factory, monkeypatch):
    """Every test has a cache and a configuration of its own, both empty."""
    folder = tmp_path_factory.mktemp("own")
    monkeypatch.setenv("HF_LINEAGE_CACHE", str(folder / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    return folder
