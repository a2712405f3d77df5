"""Streams that may be closed and variables that may have no meaning when a process starts."""

from __future__ import annotations

import contextlib
import os
import sys
from urllib.parse import urlsplit

from hf_lineage.checking.results import clock
from hf_lineage.errors import OptionError, printable

STREAMS = {"stdin": ("r", os.O_RDONLY), "stdout": ("w", os.O_RDONLY), "stderr": ("w", os.O_WRONLY)}
"""Streams in the order of their numbers -> mode, and flags that open the null device where the stream is closed.

Messages may be lost, so they are written there; a report may not, so that writing it fails.
"""
WHOLE_NUMBERS = ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT")
"""Variables of which the client of the Hub makes a number when it is imported, and fails for want of one."""
ENDPOINT, PROTOCOLS = "HF_ENDPOINT", ("http", "https")


def fill_closed_streams() -> None:
    """Put the null device in the place of each standard stream that is closed.

    Otherwise the next file that is opened takes its number, and what is printed lands there; and progress bars fail.
    """
    for number, (name, (mode, flags)) in enumerate(STREAMS.items()):
        with contextlib.suppress(OSError):
            os.fstat(number)
            continue
        os.set_inheritable(os.open(os.devnull, flags), True)  # it takes the lowest number that is free
        setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def refuse_unusable_variables() -> None:
    """Raise OptionError, which names it, for a variable whose value would be an error of some package further on."""
    clock.moment(clock.now())
    for name in WHOLE_NUMBERS:
        value = os.environ.get(name, "0")
        try:
            int(value)
        except ValueError:
            raise OptionError(f"{name} must be a whole number of seconds, not {printable(value, 100)!r}") from None
    value = os.environ.get(ENDPOINT, "https://huggingface.co")
    with contextlib.suppress(ValueError):  # of a port that is none
        address = urlsplit(value)
        if address.scheme in PROTOCOLS and address.hostname and address.port != 0:
            return
    shown = printable(value.rpartition("@")[2], 100)
    raise OptionError(f"{ENDPOINT} must be the address of a Hub such as https://huggingface.co, not {shown!r}")
