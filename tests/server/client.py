"""The real client, turned to a small Hub: in this process, or in one of its own."""

import ssl
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from huggingface_hub import constants
from huggingface_hub.utils import close_session  # type: ignore[attr-defined]

from hf_lineage.hub import client as asked
from tests.invoking import environment
from tests.server.hub import Hub

QUIET = ("HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_UPDATE_CHECK")


def connect(hub: Hub, cache: Path, monkeypatch) -> list[float]:
    """Let the client of this process talk to that Hub, and nobody wait; return what would have been waited.

    The client's constants were read when it was imported.
    """
    waited: list[float] = []
    clock = SimpleNamespace(sleep=waited.append, time=time.time, monotonic=time.monotonic)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(cache / "token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}")
    for module in ("huggingface_hub.utils._http", "huggingface_hub.file_download"):
        monkeypatch.setattr(f"{module}.time", clock)
    # That Hub is not encrypted; to load the certificates that the client trusts takes longer than most requests.
    monkeypatch.setattr(ssl, "create_default_context", lambda *_, **__: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    monkeypatch.setattr(asked, "_wait", lambda seconds, stopped: waited.append(seconds))
    close_session()
    return waited


def connect_to_nothing(cache: Path, monkeypatch) -> None:
    connect(cast(Hub, SimpleNamespace(url="http://127.0.0.1:9")), cache, monkeypatch)


def remote(hub: Hub, home: Path, **changes: str) -> dict[str, str]:
    """The environment of a process that knows that Hub alone."""
    settings = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"}
    return environment(**settings | dict.fromkeys(QUIET, "1") | changes)


def cached(cache: Path) -> set[str]:
    """Every file in a cache, links included, but for locks and what the client notes to itself."""
    left_out = (".locks", "CACHEDIR.TAG")
    files = (file.relative_to(cache) for file in cache.rglob("*") if file.is_file() or file.is_symlink())
    return {file.as_posix() for file in files if not file.as_posix().startswith(left_out)}
