"""A small Hub that several tests of `watch` look at."""

import pytest

from tests.server.client import connect
from tests.watching import publishing


@pytest.fixture
def hub(tmp_path):
    with publishing(tmp_path) as running:
        yield running


@pytest.fixture
def ledger(hub, tmp_path, monkeypatch):
    """The file that runs in this process write to, with the client talking to that Hub."""
    connect(hub, tmp_path / "cache", monkeypatch)
    return tmp_path / "ledger.jsonl"
