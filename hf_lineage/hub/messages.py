"""Messages: what the Hub's client logs, printed once, on one line, and only if somebody has to know.

Its advice about tokens and packages, and each of its repetitions, are not about the model; a request that fails for
good is an error of ours anyway.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

from hf_lineage.errors import printable

SOURCES = ("_snapshot_download", "file_download", "hf_api", "utils._http")
"""The modules of the client that we call, each with a logger of its name."""
UNSAID = (
    "No files matched",
    "unauthenticated requests",
    "'hf_xet' package is not installed",
    "thrown while requesting",
    "Retrying in ",
    "Trying to resume download",
    "Max retries exceeded",
)
"""Parts of the messages that are not shown."""
LONGEST = 300


class _Translated(logging.Filter):
    """Drops what is not shown, and keeps anything else to one line, whatever a server wrote into it."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        record.msg, record.args = printable(f"the client of the Hub says: {' '.join(message.split())}", LONGEST), ()
        return not any(part in message for part in UNSAID)


_lock = threading.Lock()
_filter = _Translated()
_running = 0


@contextlib.contextmanager
def translated_messages() -> Iterator[None]:
    """Translate what the client logs meanwhile; what it logs for others before and afterwards stays."""
    _count(+1)
    try:
        yield
    finally:
        _count(-1)


def _count(change: int) -> None:
    """Listen to the client while at least one request of ours is on its way, in any thread."""
    global _running
    with _lock:
        _running += change
        for name in SOURCES:
            logger = logging.getLogger(f"huggingface_hub.{name}")
            if _running:
                logger.addFilter(_filter)
            else:
                logger.removeFilter(_filter)
