"""Fixtures that several modules share."""

import pytest

from tests.models import family


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A local hub of one base and one model that declares it; nothing is asked of the real one."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return family(tmp_path)
