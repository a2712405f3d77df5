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
"""Seconds before a question is asked again, unless the server says when."""
LONG_WAIT, LONGEST_WAIT = 10, 330
"""Seconds: what is worth a word, and what is not waited for; the Hub's limits hold for five minutes."""
PASSING = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses that say nothing about what was asked for."""
COMMIT = re.compile(r"[0-9a-f]{40}")
"""What a commit is called, as a whole."""


class Unfinished(Exception):  # noqa: N818 - not an error before it has happened often enough
    """An answer that was put off or broke off, so that the question may be asked again."""

    def __init__(self, why: str, pause: float | None = None) -> None:
        super().__init__(why)
        self.pause = pause
        """Seconds, where the server says so."""


def snapshot(name: str, revision: str | None, files: Iterable[str]) -> tuple[Path, str]:
    """Fetch chosen files from the root of a Hub repository and return the cache's folder of them and its commit.

    Raise RepositoryError if there is no such repository or revision or it is gated, NetworkError if nobody can say.
    """
    from huggingface_hub import snapshot_download

    def download() -> str:
        return snapshot_download(name, revision=revision, allow_patterns=patterns, tqdm_class=progress())

    patterns = [file.translate({ord(c): f"[{c}]" for c in "*?["}) for file in files]
    folder = Path(ask(name, download))
    return folder, folder.name


def progress() -> type[Any]:
    """Return the client's progress bar, shown on a terminal alone."""
    from huggingface_hub.utils.tqdm import tqdm

    class Progress(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            # None: only on a terminal.
            super().__init__(*args, **{"disable": None} | kwargs)  # type: ignore[no-untyped-call]

    return Progress


def listing(name: str, commit: str | None) -> list[str]:
    """Return the names of all files of a Hub repository; raise as `snapshot` does.

    A snapshot has left the list in the cache, where nobody has to be asked.
    """
    from huggingface_hub import HfApi, get_cached_repo_tree
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    try:
        return [entry.path for entry in get_cached_repo_tree(name, revision=commit)]
    except CachedRepoTreeNotFoundError:
        return ask(name, lambda: HfApi().list_repo_files(name, revision=commit))


def digests(name: str, commit: str | None) -> dict[str, str]:
    """Return the SHA-256, in hexadecimal, of each file at the root of a Hub repository that Git LFS keeps.

    Raise as `snapshot` does.
    """
    from huggingface_hub import HfApi, RepoFile

    def tree() -> list[RepoFile]:
        return [entry for entry in HfApi().list_repo_tree(name, revision=commit) if isinstance(entry, RepoFile)]

    return {file.path: file.lfs.sha256 for file in ask(name, tree) if file.lfs}


def locate(name: str, commit: str, file: str) -> HfFileMetadata:
    """Return where a file of a repository is, how large and under which tag; raise as `snapshot` does."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    return ask(name, lambda: get_hf_file_metadata(hf_hub_url(name, file, revision=commit)))


def current_name(name: str, commit: str) -> str:
    """Return what a repository is called today: one that was renamed answers to its old name too."""
    from huggingface_hub import HfApi

    return ask(name, lambda: HfApi().model_info(name, revision=commit).id)


def headers(address: str) -> dict[str, str]:
    """Return the headers of a request: only the Hub itself is sent the token."""
    from huggingface_hub import constants
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    ours = urlsplit(address)[:2] == urlsplit(constants.ENDPOINT)[:2]
    return build_hf_headers(token=None if ours else False, library_name="hf-lineage")


def ask(name: str, question: Callable[[], Answer], stopped: threading.Event | None = None) -> Answer:
    """Return the answer to a question about a repository, asked again where what went wrong may pass.

    Who waits in between is woken when `stopped` is set.

    Raise RepositoryError for what the Hub says of the repository, NetworkError if it says nothing or cannot be reached.
    """
    from huggingface_hub import errors
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # its own alias of httpx2

    try:
        return _patiently(name, question, stopped)
    except errors.GatedRepoError:
        raise RepositoryError(f"{name} is gated: ask for access on its page and set HF_TOKEN") from None
    except errors.RevisionNotFoundError:
        raise RepositoryError(f"{name} has no such revision on the Hub: check what stands after the @") from None
    except errors.RepositoryNotFoundError:
        raise RepositoryError(f"{name} is not on the Hub, or is private: check the name, or set HF_TOKEN") from None
    except errors.OIDCError as error:
        raise NetworkError(
            f"{name}: HF_OIDC_RESOURCE asks for a token that is not to be had ({first_line(error)}); give the job "
            "`permissions: id-token: write`, make it a trusted publisher on the Hub, or unset HF_OIDC_RESOURCE"
        ) from None
    except (OSError, ValueError, httpx.HTTPError, Unfinished) as error:
        raise _told(name, error) from None


def stated(said: Mapping[str, str]) -> float | None:
    """Return the seconds that the headers of an answer ask to wait, None if they say nothing."""
    from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]

    limit, after = parse_ratelimit_headers(said), said.get("Retry-After", "")
    if limit is not None and limit.remaining == 0:
        return limit.reset_in_seconds
    return int(after) if re.fullmatch(r"\d{1,9}", after, re.ASCII) else None


def first_line(error: BaseException) -> str:
    """Return what an error says first; what stands behind a question mark may be a signature that lets anybody in."""
    return re.sub(r"\?[^\s']*", "", str(error)).partition("\n")[0] or type(error).__name__


def _patiently(name: str, question: Callable[[], Answer], stopped: threading.Event | None) -> Answer:
    for wait in WAITS:
        try:
            return question()
        except Exception as error:
            pause = _pause(error)
            if pause is None or pause > LONGEST_WAIT:
                raise
            if pause > LONG_WAIT:
                logging.getLogger(__name__).warning("%s: the Hub asks to wait %d seconds", printable(name), pause)
        _rest(wait if pause < 0 else pause, stopped)
    return question()


def _rest(seconds: float, stopped: threading.Event | None) -> None:
    (stopped or threading.Event()).wait(seconds)


def _pause(error: Exception) -> float | None:
    """Seconds before a question is asked again, negative where nothing says how many, None if it would be in vain."""
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    cause = _cause(error)
    if isinstance(cause, Unfinished):
        return -1 if cause.pause is None else cause.pause
    if isinstance(cause, httpx.TimeoutException | httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError):
        return -1
    response = getattr(cause, "response", None)
    if response is None or response.status_code not in PASSING:
        return None
    pause = stated(response.headers)
    return -1 if pause is None else pause


def _cause(error: BaseException) -> BaseException:
    """What went wrong before the client looked into its cache instead."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    return error.__cause__ or error if isinstance(error, LocalEntryNotFoundError) else error


def _told(name: str, error: Exception) -> LineageError:
    """An error of the client as one of ours."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    cause = _cause(error)
    if isinstance(cause, OfflineModeIsEnabled):
        return RepositoryError(
            f"{name} is not in the cache, as far as it is needed, and HF_HUB_OFFLINE keeps the Hub from being asked; "
            "unset it, or download the model"
        )
    said = first_line(cause)
    status = getattr(getattr(cause, "response", None), "status_code", None)
    about_it = isinstance(cause, ValueError) if status is None else status < 500 and status not in PASSING
    if about_it:
        return RepositoryError(f"{name} cannot be had from the Hub ({said}); check its name")
    return NetworkError(f"{name} cannot be fetched from the Hub ({said}); check the connection and try again")
