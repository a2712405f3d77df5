"""RangedFile: one large file of the Hub at one commit, of which only some ranges are downloaded.

They lie at their positions in a temporary file of the same size on the disk of the cache, which takes space only there.
"""

import os
import re
import tempfile
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any

from hf_lineage.errors import CheckpointError, NetworkError, remedy
from hf_lineage.files.safetensors import OPEN_FILES
from hf_lineage.hub import client
from hf_lineage.hub.repo import RepoRef

HEAD = 2**15  # bytes that are read first: the header of most files
LARGEST_RANGE = 2**26  # bytes of one request: of a large tensor a broken connection loses little
EXPIRED = frozenset({401, 403, 410})  # statuses with which a signed address answers once it has expired


@dataclass
class Downloads:
    """Counts of the downloads for one checkpoint, and whether these downloads have been cancelled."""

    requests: int = 0
    downloaded: int = 0  # bytes
    stopped: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, requests: int = 0, downloaded: int = 0) -> None:
        """Add to both counts."""
        with self._lock:
            self.requests += requests
            self.downloaded += downloaded


class RangedFile:
    """A file of a Hub repository; `path` can be opened and holds the ranges that were downloaded."""

    def __init__(self, repo: RepoRef, file: str, downloads: Downloads) -> None:
        self.repo, self.file = repo, file
        self._downloads, self._lock = downloads, threading.Lock()
        self._metadata = self._locate()
        self._tag: str | None = None
        self.size = self._metadata.size or 0
        try:
            with tempfile.TemporaryFile(dir=self.repo.folder.parents[1]) as temporary:
                self._descriptor = os.dup(temporary.fileno())
            weakref.finalize(self, os.close, self._descriptor)
            os.truncate(self._descriptor, self.size)
        except OSError as error:
            raise self._disk_error(error) from None
        self.path = OPEN_FILES / str(self._descriptor)
        self.head = 0  # bytes at its beginning that were read when it was opened

    def __str__(self) -> str:
        return f"{self.repo}: {self.file}"

    @property
    def content(self) -> str:
        """The name of this content in the cache."""
        return self._metadata.etag or ""

    def read_head(self, largest: int) -> None:
        """Fetch the header, unless it says that it is longer than `largest` bytes."""
        self.head = min(HEAD, self.size)
        self.fetch(0, self.head)
        length = int.from_bytes(os.pread(self._descriptor, 8, 0), "little")
        if self.head < 8 + length <= min(self.size, largest):
            self.fetch(self.head, 8 + length)
            self.head = 8 + length

    def fetch(self, start: int, stop: int) -> None:
        """Fetch the bytes from `start` to `stop`; after a broken connection only the missing ones."""
        position = start

        def rest() -> None:
            nonlocal position
            for chunk in self._chunks(position, stop):
                self._write(chunk[: stop - position], position)
                position = min(position + len(chunk), stop)
            if position < stop:
                raise client.UnfinishedError(f"{self.file} ended at byte {position}")

        if start < stop:
            client.ask(str(self.repo), rest, self._downloads.stopped)

    def _chunks(self, start: int, stop: int) -> Iterator[bytes]:
        from huggingface_hub import constants
        from huggingface_hub.utils import get_session, httpx  # type: ignore[attr-defined]

        address = self._metadata.location
        only = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        request: Any = {"headers": client.headers(address) | only, "timeout": constants.HF_HUB_DOWNLOAD_TIMEOUT}
        if self._downloads.stopped.is_set():
            raise CancelledError
        self._downloads.count(requests=1)
        try:
            with get_session().stream("GET", address, **request) as response:
                self._check(response, address, start, stop)
                for chunk in response.iter_raw():
                    self._downloads.count(downloaded=len(chunk))
                    if self._downloads.stopped.is_set():
                        raise CancelledError
                    yield chunk
        except httpx.TransportError as error:
            raise client.UnfinishedError(f"{self.file}: {error or type(error).__name__}") from None

    def _check(self, response: Any, address: str, start: int, stop: int) -> None:
        """Raise unless an answer is the range that was asked for, uncompressed, of the file that was opened."""
        status, headers = response.status_code, response.headers
        if status in EXPIRED:
            with self._lock:
                if self._metadata.location == address:  # else another thread has asked for the address again
                    metadata = self._locate()
                    if (metadata.etag, metadata.size) != (self._metadata.etag, self._metadata.size):
                        raise self._change_error()
                    self._metadata = metadata
            raise client.UnfinishedError(f"{self.file}: {status}, although its address is new", 0)
        if status in client.TEMPORARY:
            raise client.UnfinishedError(f"{self.file}: {status} {response.reason_phrase}", client.retry_after(headers))
        if status == 200:
            instead = f"`hf download {self.repo.remote}` downloads the whole model"
            raise client.UnfinishedError(f"{self.file}: the server sent the whole file instead of a part; {instead}")
        part = re.fullmatch(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})", headers.get("Content-Range", ""), re.ASCII)
        if status != 206 or part is None or headers.get("Content-Encoding", "identity") != "identity":
            raise client.UnfinishedError(f"{self.file}: {status} instead of the part that was requested")
        with self._lock:
            self._tag = self._tag or headers.get("ETag")
        if int(part[3]) != self.size or headers.get("ETag") != self._tag:
            raise self._change_error()
        if (int(part[1]), int(part[2])) != (start, stop - 1):
            raise client.UnfinishedError(f"{self.file}: the server sent another part than the one requested")

    def _locate(self) -> Any:  # HfFileMetadata
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        self._downloads.count(requests=1)
        name, file, commit = self.repo.remote or self.repo.name, self.repo.within(self.file), self.repo.commit or "main"
        metadata = client.ask(name, lambda: get_hf_file_metadata(hf_hub_url(name, file, revision=commit)))
        if metadata.commit_hash != self.repo.commit:
            raise self._change_error()
        if not metadata.size:
            raise NetworkError(f"{self}: the Hub does not give its size; try again later")
        return metadata

    def _write(self, chunk: bytes, position: int) -> None:
        rest = memoryview(chunk)
        while rest:
            try:
                written = os.pwrite(self._descriptor, rest, position)
            except OSError as error:
                raise self._disk_error(error) from None
            rest, position = rest[written:], position + written

    def _change_error(self) -> CheckpointError:
        return CheckpointError(f"{self} changed after it was opened, because the branch moved; run again")

    def _disk_error(self, error: OSError) -> NetworkError:
        advice = remedy(error, "make room, or set HF_HOME to another disk")
        return NetworkError(f"{self}: {error.strerror or error}, on the disk with the cache; {advice}")
