"""Translation: which error of this package stands for an error of the Hub's client, in one table.

It imports the client, so it is imported only where a request is made.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.request import getproxies

from huggingface_hub import constants, errors, get_token
from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # its own alias of httpx2

from hf_lineage.errors import BranchMovedError, LineageError, NetworkError, RepositoryError

Request = Literal["reading", "listing", "writing"]
ANSWERED = (errors.HfHubHTTPError, httpx.HTTPStatusError)
"""Errors that have an answer of the Hub, and so a status."""
UNREACHABLE = (OSError, httpx.HTTPError)
MALFORMED = (
    *(AssertionError, AttributeError, LookupError, OverflowError, TypeError, ValueError, RecursionError),
    errors.FileMetadataError,
)
"""Errors that the client raises for an answer that is no JSON, lacks a key or header, or has values of another type."""


@dataclass(frozen=True)
class Row:
    """Errors of the client, of some statuses alone if any are named, and the error that stands for them."""

    errors: type[Exception] | tuple[type[Exception], ...]
    stands: type[LineageError]
    message: str
    """With the fields of `_fields`."""
    statuses: Collection[int] = ()
    because_of: type[Exception] | None = None
    """If named: the error was raised because of one of this type."""

    def holds(self, error: Exception) -> bool:
        """Return whether this row is about an error."""
        return (
            isinstance(error, self.errors)
            and (not self.statuses or _status(error) in self.statuses)
            and (self.because_of is None or isinstance(error.__cause__, self.because_of))
        )


EITHER = (
    Row(
        errors.OIDCError,
        NetworkError,
        "{name}: the token for HF_OIDC_RESOURCE cannot be obtained ({reason}); give the job `permissions: id-token: "
        "write`, make it a trusted publisher on the Hub, or unset HF_OIDC_RESOURCE",
    ),
    Row(errors.HFValidationError, RepositoryError, "{name} cannot be read from the Hub ({reason}); check its name"),
    Row(
        (httpx.InvalidURL, httpx.UnsupportedProtocol),
        NetworkError,
        "{name}: the Hub has no valid address ({reason}); check HF_ENDPOINT",
    ),
    Row(
        MALFORMED,
        NetworkError,
        "{name}: this answer did not come from a Hub ({kind}: {reason}); check HF_ENDPOINT and proxies, or run again "
        "later",
    ),
)
READING = (
    Row(
        errors.OfflineModeIsEnabled,
        RepositoryError,
        "{name} is not in the cache, or not completely, and HF_HUB_OFFLINE forbids requests; unset it, or download "
        "the model",
    ),
    Row(errors.GatedRepoError, RepositoryError, "{name} is gated: request access on its page{gate}"),
    Row(
        errors.RevisionNotFoundError,
        RepositoryError,
        "{name} has no such revision on the Hub; check the part after the @",
    ),
    Row(
        errors.RepositoryNotFoundError,
        RepositoryError,
        "{name} is not on the Hub, or is private; check the name, or {private}",
    ),
    Row(
        ANSWERED,
        RepositoryError,
        "{name}: the Hub does not accept the token ({reason}); log in again, or correct HF_TOKEN",
        statuses={401},
    ),
    Row(
        ANSWERED,
        NetworkError,
        "{name} cannot be fetched from the Hub{route} ({reason}); check the connection and try again",
        statuses={408, 429, *range(500, 600)},
    ),
    Row(ANSWERED, RepositoryError, "{name} cannot be read from the Hub ({reason}); check its name"),
    *EITHER,
    Row(
        UNREACHABLE,
        NetworkError,
        "{name} cannot be fetched from the Hub{route} ({reason}); check the connection and try again",
    ),
)
LISTING = (
    Row(
        errors.OfflineModeIsEnabled,
        RepositoryError,
        "{name} cannot be found on the Hub, because HF_HUB_OFFLINE forbids requests; unset it",
    ),
    *READING[1:],
)
WRITING = (
    Row(
        errors.OfflineModeIsEnabled,
        RepositoryError,
        "{name}: nothing can be written, because HF_HUB_OFFLINE forbids requests; unset it",
    ),
    Row(
        errors.LocalTokenNotFoundError,
        RepositoryError,
        "{name}: writing needs an account; run `hf auth login` or set HF_TOKEN",
    ),
    Row(ANSWERED, BranchMovedError, "{name}: the branch changed during the check; run again", statuses={412}),
    Row(
        ANSWERED,
        RepositoryError,
        "{name}: the Hub refuses the change ({status}): the branch does not exist, pull requests are disabled, or "
        "the account may not write there; check the permissions of HF_TOKEN",
        statuses={401, 403, 404},
    ),
    Row(ANSWERED, NetworkError, "{name}: the Hub answers {status}{route} ({reason}); run again later"),
    Row(
        ValueError,
        RepositoryError,
        "{name}: the Hub refuses README.md: {details}; correct it and run again",
        because_of=errors.BadRequestError,
    ),
    *EITHER,
    # The client raises this for every upload that fails.
    Row(RuntimeError, NetworkError, "{name}: the upload failed ({cause}); run again"),
    Row(UNREACHABLE, NetworkError, "{name}: the Hub cannot be reached{route} ({reason}); run again"),
)
TABLE: Mapping[Request, tuple[Row, ...]] = {"reading": READING, "listing": LISTING, "writing": WRITING}
"""For each kind of request its rows, of which the first that holds decides."""


@contextlib.contextmanager
def translated(name: str, request: Request) -> Iterator[None]:
    """Raise, in place of an error of the client in a request about a repository, the error that stands for it."""
    try:
        yield
    except LineageError:
        raise
    except Exception as error:
        meant = cause(error)
        for row in TABLE[request]:
            if row.holds(meant):
                raise row.stands(row.message.format_map(_fields(name, meant))) from None
        raise


def cause(error: Exception) -> Exception:
    """Return the error because of which the client searched its cache instead; else the error itself."""
    instead = isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception)
    return error.__cause__ if instead else error  # type: ignore[return-value]


def _fields(name: str, error: Exception) -> dict[str, object]:
    """Return the values that a message about an error may be filled with, by the name of the field."""
    return {
        "name": name,
        "route": route(),
        "gate": "; the account of your token has no access" if _has_token() else " and set HF_TOKEN",
        "private": access(),
        "status": _status(error),
        "kind": type(error).__name__,
        "reason": first_line(error),
        "cause": first_line(error.__cause__ or error),
        "details": " ".join(str(error).split()),
    }


def access() -> str:
    """Return the advice to check access where the name of a model or an account is right: it may be private."""
    return "whether the account of your token may read it" if _has_token() else "set HF_TOKEN"


def _has_token() -> bool:
    try:
        return get_token() is not None
    except errors.OIDCError:
        return False


def route() -> str:
    """Return the endpoint and the proxies that the user put between this machine and the Hub, without passwords."""
    endpoint = constants.ENDPOINT.rpartition("@")[2]
    other = [f"HF_ENDPOINT {endpoint}"] if constants.ENDPOINT != constants._HF_DEFAULT_ENDPOINT else []
    proxies = [f"{scheme.upper()}_PROXY" for scheme in ("http", "https", "all") if scheme in getproxies()]
    return f" by {' and '.join((*other, *proxies))}" if other or proxies else ""


def _status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def first_line(error: BaseException) -> str:
    """Return the first line of an error, without the query of any address in it: that may hold a secret signature."""
    return re.sub(r"\?[^\s']*", "", str(error).strip()).partition("\n")[0] or type(error).__name__
