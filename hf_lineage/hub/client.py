"""Requests to the Hugging Face Hub, all through its own client, whose variables count, and what that client logs."""

import contextlib
import functools
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from hf_lineage.errors import NetworkError, RepositoryError, printable

SOURCES = ("_snapshot_download", "file_download", "hf_api", "utils._http")  # each has a logger of its name
UNSAID = re.compile(
    "No files matched|unauthenticated requests|'hf_xet' package is not installed|thrown while requesting|"
    "Retrying in |Trying to resume download|Max retries exceeded"
)
_lock = threading.Lock()
_running = 0  # requests of ours that are on their way, in any thread
Answer = TypeVar("Answer")
Request = Literal["reading", "listing", "writing"]
WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds before each repetition of a request, unless the server says when to repeat it
LONG_WAIT, LONGEST_WAIT = 10, 330  # seconds: longer waits are logged, or refused; the Hub's limits hold five minutes
TEMPORARY = frozenset({408, 429, 500, 502, 503, 504})  # they say nothing about the repository
COMMIT = re.compile(r"[0-9a-f]{40}")  # the full name of a commit
SHA256 = re.compile(r"[0-9a-f]{64}")  # the name of the content of a large file


def _translate(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    record.msg, record.args = printable(f"the client of the Hub says: {' '.join(message.split())}", 300), ()
    return not UNSAID.search(message)


@contextlib.contextmanager
def translated_messages() -> Iterator[None]:
    """Translate what the client logs meanwhile; what it logs for others before and afterwards stays."""
    global _running
    loggers = [logging.getLogger(f"huggingface_hub.{name}") for name in SOURCES]
    with _lock:
        _running += 1
        for logger in loggers:
            logger.addFilter(_translate)
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            for logger in loggers if not _running else ():
                logger.removeFilter(_translate)


class UnfinishedError(OSError):
    """An answer that was postponed or broke off, so that the request may be repeated."""

    def __init__(self, why: str, pause: float | None = None) -> None:
        super().__init__(why)
        self.pause = pause  # seconds to wait before, if the server says so


def offline() -> bool:
    """Return whether the user forbids any request to the Hub."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def snapshot(name: str, revision: str | None, files: Iterable[str]) -> tuple[Path, str]:
    """Fetch files of a Hub repository; return the cache's folder of them and its commit; raise as `ask`."""
    from huggingface_hub import snapshot_download

    patterns = [file.translate({ord(c): f"[{c}]" for c in "*?["}) for file in files]
    load = functools.partial(snapshot_download, name, revision=revision, allow_patterns=patterns, tqdm_class=progress())
    folder = Path(str(ask(name, load)))
    return folder, folder.name


def progress() -> type[Any]:
    """Return the class of the client's progress bar, which is shown on a terminal only."""
    from huggingface_hub.utils.tqdm import tqdm

    class Progress(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            # None: only on a terminal.
            super().__init__(*args, **{"disable": None} | kwargs)  # type: ignore[no-untyped-call]

    return Progress


@contextlib.contextmanager
def without_bars(silent: bool = True) -> Iterator[None]:
    """Let the client show no progress meanwhile, where that is wanted."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    silenced = silent and not are_progress_bars_disabled()
    if silenced:
        disable_progress_bars()
    try:
        yield
    finally:
        if silenced:
            enable_progress_bars()


def listing(name: str, commit: str | None) -> list[str]:
    """Return the names of all files of a Hub repository, from the cache if a snapshot left them; raise as `ask`."""
    from huggingface_hub import HfApi, get_cached_repo_tree
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    try:
        return [entry.path for entry in get_cached_repo_tree(name, revision=commit)]
    except CachedRepoTreeNotFoundError:
        return ask(name, lambda: HfApi().list_repo_files(name, revision=commit))


def digests(name: str, commit: str | None, folder: str = "") -> dict[str, str]:
    """Return the SHA-256 of each file in a folder of a Hub repository that Git LFS stores; raise as `ask`."""
    from huggingface_hub import HfApi, RepoFile

    def list_digests() -> dict[str, str]:
        entries = HfApi().list_repo_tree(name, folder or None, revision=commit)
        return {file.path: text(file.lfs.sha256) for file in entries if isinstance(file, RepoFile) and file.lfs}

    return ask(name, list_digests)


def current_name(name: str, commit: str) -> str:
    """Return the current name of a repository; a renamed one can still be found under its old name."""
    from huggingface_hub import HfApi

    return ask(name, lambda: text(HfApi().model_info(name, revision=commit).id))


def find_new_name(name: str, commit: str) -> str | None:
    """Return the current name of a repository if it is another one; None as well if the Hub does not say."""
    with contextlib.suppress(RepositoryError, NetworkError):
        if (current := current_name(name, commit)) != name:
            logging.getLogger(__name__).warning("%s is now called %s", printable(name, 200), printable(current, 200))
            return current
    return None


def headers(address: str) -> dict[str, str]:
    """Return the headers of a request; the token is sent to the Hub itself only."""
    from huggingface_hub import constants
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    is_hub = urlsplit(address)[:2] == urlsplit(constants.ENDPOINT)[:2]
    return build_hf_headers(token=None if is_hub else False, library_name="hf-lineage")


def ask(
    name: str, question: Callable[[], Answer], stopped: threading.Event | None = None, request: Request = "reading"
) -> Answer:
    """Return the answer to a request about a repository or an account, repeated after temporary failures.

    Raise RepositoryError if the Hub refuses, NetworkError if it cannot be reached, or its answer is of another form.
    Setting `stopped` ends a wait between two requests. One that writes is never repeated; a commit may have arrived.
    """
    from hf_lineage.hub.errors import translate_errors

    with translate_errors(name, request), translated_messages():
        for wait in () if request == "writing" else WAITS:
            try:
                return question()
            except Exception as error:
                pause = _pause(error, wait)
                if pause is None or pause > LONGEST_WAIT:
                    raise
                if pause > LONG_WAIT:
                    logging.getLogger(__name__).warning("%s: the Hub asks to wait %d seconds", printable(name), pause)
            _wait(pause, stopped)
        return question()


def text(value: object) -> str:
    """Return a value of an answer, which has to be text; raise TypeError, as the client does, if it is not."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.50} instead of a text")
    return value


def retry_after(answer_headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the headers of an answer ask to wait, None if they do not say."""
    from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]

    limit, after = parse_ratelimit_headers(answer_headers), answer_headers.get("Retry-After", "")
    if limit is not None and limit.remaining == 0:
        return limit.reset_in_seconds
    return int(after) if re.fullmatch(r"\d{1,9}", after, re.ASCII) else None


def _wait(seconds: float, stopped: threading.Event | None) -> None:
    (stopped or threading.Event()).wait(seconds)


def _pause(error: Exception, usual: float) -> float | None:
    """Return seconds before a request is repeated, the usual ones if nothing says how many; None if it cannot help."""
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # its own alias of httpx2

    from hf_lineage.hub import errors

    cause = errors.cause(error)
    if isinstance(cause, UnfinishedError):
        return usual if cause.pause is None else cause.pause
    if isinstance(cause, httpx.TimeoutException | httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError):
        return usual
    response = getattr(cause, "response", None)
    if response is None or response.status_code not in TEMPORARY:
        return None
    pause = retry_after(response.headers)
    return usual if pause is None else pause
