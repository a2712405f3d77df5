"""What is asked of the Hugging Face Hub, all of it through its own client: snapshots, listings, and where files are.

`HF_TOKEN`, `HF_HOME`, `HF_ENDPOINT` and `HF_HUB_OFFLINE` work as they do for `hf`.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from hf_lineage.errors import LineageError, NetworkError, RepositoryError, printable

if TYPE_CHECKING:
    from huggingface_hub import HfFileMetadata

Answer = TypeVar("Answer")
WAITS = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each repetition of a request, unless the server says when to repeat it."""
LONG_WAIT, LONGEST_WAIT = 10, 330
"""Seconds: a longer wait is logged, and the longest one that is accepted; the Hub's limits hold for five minutes."""
TEMPORARY = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP statuses of temporary failures, which say nothing about the repository."""
COMMIT = re.compile(r"[0-9a-f]{40}")
"""The full name of a commit."""


class Unfinished(Exception):  # noqa: N818 - not an error before it has happened often enough
    """An answer that was postponed or broke off, so that the request may be repeated."""

    def __init__(self, why: str, pause: float | None = None) -> None:
        super().__init__(why)
        self.pause = pause
        """Seconds to wait before, if the server says so."""


def snapshot(name: str, revision: str | None, files: Iterable[str]) -> tuple[Path, str]:
    """Fetch chosen files from the root of a Hub repository and return the cache's folder of them and its commit.

    Raise RepositoryError if there is no such repository or revision or it is gated, NetworkError if the Hub gives no
    answer.
    """
    from huggingface_hub import snapshot_download

    def download() -> str:
        return snapshot_download(name, revision=revision, allow_patterns=patterns, tqdm_class=progress())

    patterns = [file.translate({ord(c): f"[{c}]" for c in "*?["}) for file in files]
    folder = Path(ask(name, download))
    return folder, folder.name


def progress() -> type[Any]:
    """Return the class of the client's progress bar, which is shown on a terminal only."""
    from huggingface_hub.utils.tqdm import tqdm

    class Progress(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            # None: only on a terminal.
            super().__init__(*args, **{"disable": None} | kwargs)  # type: ignore[no-untyped-call]

    return Progress


def listing(name: str, commit: str | None) -> list[str]:
    """Return the names of all files of a Hub repository; raise as `snapshot` does.

    If a snapshot has left the list in the cache, no request is made.
    """
    from huggingface_hub import HfApi, get_cached_repo_tree
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    try:
        return [entry.path for entry in get_cached_repo_tree(name, revision=commit)]
    except CachedRepoTreeNotFoundError:
        return ask(name, lambda: HfApi().list_repo_files(name, revision=commit))


def digests(name: str, commit: str | None) -> dict[str, str]:
    """Return the SHA-256, in hexadecimal, of each file at the root of a Hub repository that Git LFS stores.

    Raise as `snapshot` does.
    """
    from huggingface_hub import HfApi, RepoFile

    def tree() -> list[RepoFile]:
        return [entry for entry in HfApi().list_repo_tree(name, revision=commit) if isinstance(entry, RepoFile)]

    return {file.path: file.lfs.sha256 for file in ask(name, tree) if file.lfs}


def locate(name: str, commit: str, file: str) -> HfFileMetadata:
    """Return the address, the size and the tag of a file of a repository; raise as `snapshot` does."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    return ask(name, lambda: get_hf_file_metadata(hf_hub_url(name, file, revision=commit)))


def current_name(name: str, commit: str) -> str:
    """Return the current name of a repository; a renamed one can still be found under its old name."""
    from huggingface_hub import HfApi

    return ask(name, lambda: HfApi().model_info(name, revision=commit).id)


def headers(address: str) -> dict[str, str]:
    """Return the headers of a request; the token is sent to the Hub itself only."""
    from huggingface_hub import constants
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    is_hub = urlsplit(address)[:2] == urlsplit(constants.ENDPOINT)[:2]
    return build_hf_headers(token=None if is_hub else False, library_name="hf-lineage")


def ask(name: str, question: Callable[[], Answer], stopped: threading.Event | None = None) -> Answer:
    """Return the answer to a request about a repository, repeated after temporary failures.

    Setting `stopped` ends a wait between two requests.

    Raise RepositoryError if the Hub refuses this repository, NetworkError if the Hub fails or cannot be reached.
    """
    from huggingface_hub import errors
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # its own alias of httpx2

    try:
        return _repeated(name, question, stopped)
    except errors.GatedRepoError:
        raise RepositoryError(f"{name} is gated: ask for access on its page and set HF_TOKEN") from None
    except errors.RevisionNotFoundError:
        raise RepositoryError(f"{name} has no such revision on the Hub: check the part after the @") from None
    except errors.RepositoryNotFoundError:
        raise RepositoryError(f"{name} is not on the Hub, or is private: check the name, or set HF_TOKEN") from None
    except errors.OIDCError as error:
        raise NetworkError(
            f"{name}: HF_OIDC_RESOURCE asks for a token that cannot be obtained ({first_line(error)}); give the job "
            "`permissions: id-token: write`, make it a trusted publisher on the Hub, or unset HF_OIDC_RESOURCE"
        ) from None
    except (OSError, ValueError, httpx.HTTPError, Unfinished) as error:
        raise _translated(name, error) from None


def retry_after(answer_headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the headers of an answer ask to wait, None if they do not say."""
    from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]

    limit, after = parse_ratelimit_headers(answer_headers), answer_headers.get("Retry-After", "")
    if limit is not None and limit.remaining == 0:
        return limit.reset_in_seconds
    return int(after) if re.fullmatch(r"\d{1,9}", after, re.ASCII) else None


def first_line(error: BaseException) -> str:
    """Return the first line of an error, without the query of any address in it: that may hold a secret signature."""
    return re.sub(r"\?[^\s']*", "", str(error)).partition("\n")[0] or type(error).__name__


def _repeated(name: str, question: Callable[[], Answer], stopped: threading.Event | None) -> Answer:
    for wait in WAITS:
        try:
            return question()
        except Exception as error:
            pause = _pause(error)
            if pause is None or pause > LONGEST_WAIT:
                raise
            if pause > LONG_WAIT:
                logging.getLogger(__name__).warning("%s: the Hub asks to wait %d seconds", printable(name), pause)
        _wait(wait if pause < 0 else pause, stopped)
    return question()


def _wait(seconds: float, stopped: threading.Event | None) -> None:
    (stopped or threading.Event()).wait(seconds)


def _pause(error: Exception) -> float | None:
    """Seconds before a request is repeated, negative if nothing says how many, None if repeating cannot help."""
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    cause = _cause(error)
    if isinstance(cause, Unfinished):
        return -1 if cause.pause is None else cause.pause
    if isinstance(cause, httpx.TimeoutException | httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError):
        return -1
    response = getattr(cause, "response", None)
    if response is None or response.status_code not in TEMPORARY:
        return None
    pause = retry_after(response.headers)
    return -1 if pause is None else pause


def _cause(error: BaseException) -> BaseException:
    """The error because of which the client searched its cache instead."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    return error.__cause__ or error if isinstance(error, LocalEntryNotFoundError) else error


def _translated(name: str, error: Exception) -> LineageError:
    """The error of this package that stands for an error of the client."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    cause = _cause(error)
    if isinstance(cause, OfflineModeIsEnabled):
        return RepositoryError(
            f"{name} is not in the cache, or not all of it that is needed, and HF_HUB_OFFLINE forbids any request; "
            "unset it, or download the model"
        )
    reason = first_line(cause)
    status = getattr(getattr(cause, "response", None), "status_code", None)
    about_repository = isinstance(cause, ValueError) if status is None else status < 500 and status not in TEMPORARY
    if about_repository:
        return RepositoryError(f"{name} cannot be got from the Hub ({reason}); check its name")
    return NetworkError(f"{name} cannot be fetched from the Hub ({reason}); check the connection and try again")
