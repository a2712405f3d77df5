"""The time that a report states: now, or the one that the environment gives so that a file can be made again."""

from __future__ import annotations

import datetime
import os

from hf_lineage.errors import OptionError

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
"""In English whatever the language of the machine."""


def now() -> datetime.datetime:
    """Return the time in UTC."""
    return datetime.datetime.now(datetime.UTC)


def moment(measured: datetime.datetime) -> datetime.datetime:
    """Return the time that a format has to state: what SOURCE_DATE_EPOCH says (reproducible-builds.org), or `measured`.

    Raise OptionError if the environment names no time.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        if not epoch:
            return measured
        return datetime.datetime.fromtimestamp(int(epoch), datetime.UTC)
    except (ValueError, OverflowError, OSError):
        raise OptionError(f"SOURCE_DATE_EPOCH must be seconds since 1970, not {epoch}") from None


def stamp(time: datetime.datetime) -> str:
    """Return a time for programs (RFC 3339), in UTC.

    >>> stamp(datetime.datetime(2026, 11, 22, 9, 30, tzinfo=datetime.UTC))
    '2026-11-22T09:30:00Z'
    """
    return f"{time.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def in_words(time: datetime.datetime) -> str:
    """Return a time for people, in UTC.

    >>> in_words(datetime.datetime(2026, 11, 2, 9, 30, tzinfo=datetime.UTC))
    '2 November 2026, 09:30 UTC'
    """
    there = time.astimezone(datetime.UTC)
    return f"{there.day} {MONTHS[there.month - 1]} {there.year}, {there.hour:02}:{there.minute:02} UTC"
