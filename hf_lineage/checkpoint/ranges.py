"""RangedFile: one large file of the Hub at one commit, of which only some ranges are fetched.

They are written where they belong in a file of the same size that has no name and is gone with the process, on the disk
of the cache: whatever reads safetensors reads it like any other, and where nothing was fetched it takes no room.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hf_lineage import hub
from hf_lineage.errors import CheckpointError, NetworkError
from hf_lineage.repo import RepoRef
from hf_lineage.tensor_file import OPEN_FILES

if TYPE_CHECKING:
    from huggingface_hub import HfFileMetadata

HEAD = 2**15
"""Bytes that are read first: the header of most files."""
LARGEST_RANGE = 2**26
"""Bytes of one request: large tensors come over several connections, and what breaks off is not much."""
EXPIRED = frozenset({401, 403, 410})
"""What a signed address answers when it is too old."""
_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})", re.ASCII)


@dataclass
class Traffic:
    """What the files of one checkpoint share: how much was moved, and whether anybody still wants it."""

    requests: int = 0
    bytes_read: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, requests: int = 0, read: int = 0) -> None:
        """Add to both counts."""
        with self._lock:
            self.requests += requests
            self.bytes_read += read


class RangedFile:
    """A file of a Hub repository; `path` can be opened, and holds what was fetched.

    Its address is resolved once and again when it expires. Raise CheckpointError if the file is not what it was.
    """

    def __init__(self, repo: RepoRef, file: str, traffic: Traffic) -> None:
        self.repo, self.file = repo, file
        self._traffic, self._lock = traffic, threading.Lock()
        self._found = self._locate()
        self._tag: str | None = None
        self.size = self._found.size or 0
        self._room = self._nameless()
        self.path = OPEN_FILES / str(self._room)
        self.head = 0
        """Bytes at its beginning that were read when it was opened."""

    def __str__(self) -> str:
        return f"{self.repo}: {self.file}"

    @property
    def content(self) -> str:
        """What the cache calls this content."""
        return self._found.etag or ""

    def read_head(self, largest: int) -> None:
        """Fetch the header, unless it says that it is longer than `largest` bytes."""
        self.head = min(HEAD, self.size)
        self.fetch(0, self.head)
        length = int.from_bytes(os.pread(self._room, 8, 0), "little")
        if self.head < 8 + length <= min(self.size, largest):
            self.fetch(self.head, 8 + length)
            self.head = 8 + length

    def fetch(self, start: int, stop: int) -> None:
        """Fetch the bytes from `start` to `stop`; what was there when a connection broke is not asked for again."""
        position = start

        def rest() -> None:
            nonlocal position
            for chunk in self._chunks(position, stop):
                self._write(chunk[: stop - position], position)
                position = min(position + len(chunk), stop)
            if position < stop:
                raise hub.Unfinished(f"{self.file} broke off at byte {position}")

        if start < stop:
            hub.ask(str(self.repo), rest, self._traffic.stopped)

    def _nameless(self) -> int:
        """A file of the same size and without a name, which is closed with this object."""
        try:
            with tempfile.TemporaryFile(dir=self.repo.folder.parents[1]) as file:
                room = os.dup(file.fileno())
            weakref.finalize(self, os.close, room)
            os.truncate(room, self.size)
        except OSError as error:
            raise self._no_room(error) from None
        return room

    def _chunks(self, start: int, stop: int) -> Iterator[bytes]:
        from huggingface_hub import constants
        from huggingface_hub.utils import get_session, httpx  # type: ignore[attr-defined]

        address = self._found.location
        asked = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        if self._traffic.stopped.is_set():
            raise CancelledError
        self._traffic.count(requests=1)
        try:
            with get_session().stream(
                "GET", address, headers=hub.headers(address) | asked, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT
            ) as response:
                self._check(response, address, start, stop)
                for chunk in response.iter_raw():
                    self._traffic.count(read=len(chunk))
                    if self._traffic.stopped.is_set():
                        raise CancelledError
                    yield chunk
        except httpx.TransportError as error:
            raise hub.Unfinished(f"{self.file}: {error or type(error).__name__}") from None

    def _check(self, response: Any, address: str, start: int, stop: int) -> None:
        """Pass only the part that was asked for, of the file that was opened, as it is stored."""
        status, said = response.status_code, response.headers
        if status in EXPIRED:
            self._renew(address)
            raise hub.Unfinished(f"{self.file}: {status}, though its address is new", 0)
        if status in hub.PASSING:
            raise hub.Unfinished(f"{self.file}: {status} {response.reason_phrase}", hub.stated(said))
        if status == 200:
            raise hub.Unfinished(
                f"{self.file}: the whole file was sent where a part was asked for; "
                f"`hf download {self.repo.remote}` fetches the model whole"
            )
        part = _CONTENT_RANGE.fullmatch(said.get("Content-Range", ""))
        if status != 206 or part is None or said.get("Content-Encoding", "identity") != "identity":
            raise hub.Unfinished(f"{self.file}: {status} where a part as it is stored was asked for")
        if int(part[3]) != self.size or self._other_tag(said.get("ETag")):
            raise self._moved()
        if (int(part[1]), int(part[2])) != (start, stop - 1):
            raise hub.Unfinished(f"{self.file}: another part was sent than was asked for")

    def _other_tag(self, tag: str | None) -> bool:
        with self._lock:
            self._tag = self._tag or tag
            return tag != self._tag

    def _locate(self) -> HfFileMetadata:
        self._traffic.count(requests=1)
        repo = self.repo
        found = hub.locate(repo.remote or repo.name, repo.revision or "main", self.file)
        if found.commit_hash != repo.revision:
            raise self._moved()
        if not found.size:
            raise NetworkError(f"{self}: the Hub does not say how large it is; try again later")
        return found

    def _renew(self, stale: str) -> None:
        """Ask for the address again, unless another thread has."""
        with self._lock:
            if self._found.location == stale:
                found = self._locate()
                if (found.etag, found.size) != (self._found.etag, self._found.size):
                    raise self._moved()
                self._found = found

    def _write(self, chunk: bytes, position: int) -> None:
        rest = memoryview(chunk)
        while rest:
            try:
                written = os.pwrite(self._room, rest, position)
            except OSError as error:
                raise self._no_room(error) from None
            rest, position = rest[written:], position + written

    def _moved(self) -> CheckpointError:
        return CheckpointError(f"{self} is not what it was when it was opened, the branch has moved; check it again")

    def _no_room(self, error: OSError) -> NetworkError:
        return NetworkError(
            f"{self}: {error.strerror or error}, on the disk of the cache; make room, or set HF_HOME to another disk"
        )
