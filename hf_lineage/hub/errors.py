"""Translation of errors of the Hub's client by the kind of request; imported, as the client is, for a request."""

import contextlib
import re
from collections.abc import Iterator
from urllib.request import getproxies

from huggingface_hub import constants, errors, get_token
from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # its own alias of httpx2

from hf_lineage.errors import BranchMovedError, LineageError, NetworkError, RepositoryError

MALFORMED = (
    *(AssertionError, AttributeError, LookupError, OverflowError, TypeError, ValueError, RecursionError),
    errors.FileMetadataError,
)  # errors that the client raises for an answer that is no JSON, lacks a key or header, or has values of another type
OFFLINE = {
    "reading": " is not in the cache, or not completely, and HF_HUB_OFFLINE forbids requests; unset it, or download "
    "the model",
    "listing": " cannot be found on the Hub, because HF_HUB_OFFLINE forbids requests; unset it",
    "writing": ": nothing can be written, because HF_HUB_OFFLINE forbids requests; unset it",
}


@contextlib.contextmanager
def translate_errors(name: str, request: str) -> Iterator[None]:
    """Raise, in place of an error of the client in a request about a repository, the error that stands for it."""
    try:
        yield
    except LineageError:
        raise
    except Exception as error:
        of_request = _of_writing if request == "writing" else _of_reading
        meant = cause(error)
        if isinstance(meant, errors.OfflineModeIsEnabled):
            raise RepositoryError(f"{name}{OFFLINE[request]}") from None
        if (own_error := of_request(name, meant)) is not None:
            raise own_error from None
        raise


def _of_reading(name: str, error: Exception) -> LineageError | None:
    reason = first_line(error)
    unfetched = f"{name} cannot be fetched from the Hub{route()} ({reason}); check the connection and try again"
    match error:
        case errors.GatedRepoError():
            gate = "; the account of your token has no access" if _has_token() else " and set HF_TOKEN"
            return RepositoryError(f"{name} is gated: request access on its page{gate}")
        case errors.RevisionNotFoundError():
            return RepositoryError(f"{name} has no such revision on the Hub; check the part after the @")
        case errors.RepositoryNotFoundError():
            return RepositoryError(f"{name} is not on the Hub, or is private; check the name, or {access()}")
    match _status(error):
        case 401:
            return RepositoryError(f"{name}: the Hub does not accept the token ({reason}); correct HF_TOKEN or log in")
        case int(status) if status in {408, 429} or status >= 500:
            return NetworkError(unfetched)
        case int():
            return RepositoryError(f"{name} cannot be read from the Hub ({reason}); check its name")
    unreachable = isinstance(error, OSError | httpx.HTTPError)
    return _of_either(name, error) or (NetworkError(unfetched) if unreachable else None)


def _of_writing(name: str, error: Exception) -> LineageError | None:
    reason = first_line(error)
    if isinstance(error, errors.LocalTokenNotFoundError):
        return RepositoryError(f"{name}: writing needs an account; run `hf auth login` or set HF_TOKEN")
    match _status(error):
        case 412:
            return BranchMovedError(f"{name}: the branch changed during the check; run again")
        case 401 | 403 | 404 as status:
            why = "the branch does not exist, pull requests are disabled, or the account may not write there"
            remedy = "check the permissions of HF_TOKEN"
            return RepositoryError(f"{name}: the Hub refuses the change ({status}): {why}; {remedy}")
        case int(status):
            return NetworkError(f"{name}: the Hub answers {status}{route()} ({reason}); run again later")
    if isinstance(error, ValueError) and isinstance(error.__cause__, errors.BadRequestError):
        details = " ".join(str(error).split())
        return RepositoryError(f"{name}: the Hub refuses README.md: {details}; correct it and run again")
    if (meaning := _of_either(name, error)) is not None:
        return meaning
    match error:
        case RuntimeError():  # the client raises this for every upload that fails
            return NetworkError(f"{name}: the upload failed ({first_line(error.__cause__ or error)}); run again")
        case OSError() | httpx.HTTPError():
            return NetworkError(f"{name}: the Hub cannot be reached{route()} ({reason}); run again")
    return None


def _of_either(name: str, error: Exception) -> LineageError | None:
    reason, kind = first_line(error), type(error).__name__
    match error:
        case errors.OIDCError():
            return NetworkError(
                f"{name}: the token for HF_OIDC_RESOURCE cannot be obtained ({reason}); give the job `permissions: "
                "id-token: write`, make it a trusted publisher on the Hub, or unset HF_OIDC_RESOURCE"
            )
        case errors.HFValidationError():
            return RepositoryError(f"{name} cannot be read from the Hub ({reason}); check its name")
        case httpx.InvalidURL() | httpx.UnsupportedProtocol():
            return NetworkError(f"{name}: the Hub has no valid address ({reason}); check HF_ENDPOINT")
    if isinstance(error, MALFORMED):
        what = "check HF_ENDPOINT and proxies, or run again later"
        return NetworkError(f"{name}: this answer did not come from a Hub ({kind}: {reason}); {what}")
    return None


def _status(error: Exception) -> int | None:
    return error.response.status_code if isinstance(error, errors.HfHubHTTPError | httpx.HTTPStatusError) else None


def cause(error: Exception) -> Exception:
    """Return the error because of which the client searched its cache instead; else the error itself."""
    instead = isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception)
    return error.__cause__ if instead else error  # type: ignore[return-value]


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


def first_line(error: BaseException) -> str:
    """Return the first line of an error, without the query of any address in it: that may hold a secret signature."""
    return re.sub(r"\?[^\s']*", "", str(error).strip()).partition("\n")[0] or type(error).__name__
