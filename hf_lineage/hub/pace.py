"""Pace: how many requests this process sends to the Hub in a minute at most.

What the Hub itself asks for, by 429 and its headers, holds besides: `client.ask` waits as long as they say.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit


class Pace:
    """Lets requests pass at equal intervals; whoever comes too early waits."""

    def __init__(self, a_minute: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self.interval = 60 / a_minute
        self._next, self._lock, self._sleep = 0.0, threading.Lock(), sleep

    def __call__(self, request: Any) -> None:
        """Wait until a request may be sent, unless it goes to another place than the Hub."""
        from huggingface_hub import constants

        if urlsplit(str(request.url))[:2] != urlsplit(constants.ENDPOINT)[:2]:
            return
        with self._lock:
            now = time.monotonic()
            wait = max(0.0, self._next - now)
            self._next = max(now, self._next) + self.interval
        if wait:
            self._sleep(wait)


def limit(a_minute: float) -> None:
    """Let the Hub's client send at most so many requests a minute from this process."""
    from huggingface_hub import set_client_factory
    from huggingface_hub.utils._http import default_client_factory

    pace = Pace(a_minute)

    def paced() -> Any:
        client = default_client_factory()
        client.event_hooks["request"].append(pace)
        return client

    set_client_factory(paced)
