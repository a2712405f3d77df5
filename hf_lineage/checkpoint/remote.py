"""Remote: a checkpoint on the Hub; only the tensors that are read are downloaded."""

import bisect
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import Memory, StoredTensor, TensorInfo
from hf_lineage.files.safetensors import OPEN_FILES
from hf_lineage.hub.ranges import LARGEST_RANGE, Downloads, RangedFile
from hf_lineage.hub.repo import RepoRef

AT_ONCE = 8  # requests at a time; with more, the Hub's limits are reached before the bandwidth is used up
Head = Callable[[RangedFile], None]  # fetches the header of a file
GAP = 2**18  # bytes between two wanted tensors up to which both are fetched with one request


@dataclass(frozen=True)
class RangedFiles:
    """Files of which only ranges are downloaded, and which are on this disk as far as they were fetched."""

    files: Mapping[Path, RangedFile]
    pool: Executor
    downloads: Downloads

    def paths(self, repo: RepoRef, files: Iterable[str]) -> dict[str, Path]:
        """Return the paths of these files, whether they are ranged or were here before."""
        return {file: repo.locate(file) for file in files} | {one.file: path for path, one in self.files.items()}

    def checkpoint(self, stored: Mapping[str, StoredTensor], tensors: Mapping[str, TensorInfo]) -> Checkpoint:
        """Return the checkpoint of these files and others that are on this disk."""
        return RemoteCheckpoint(stored, tensors, self) if self.files else Checkpoint(stored, tensors)


def open_ranged(repo: RepoRef, files: Iterable[str], head: Head = lambda _file: None) -> RangedFiles:
    """Return those of some files of which only ranges are downloaded, once `head` has fetched the header of each."""
    absent = [file for file in files if not repo.has(file)]
    if absent and not OPEN_FILES.is_dir():
        repo.fetch(*absent)
        absent = []
    downloads, pool = Downloads(), ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ranges")

    def open_remote(file: str) -> RangedFile | None:
        remote_file = RangedFile(repo, file, downloads)
        if repo.has_cached(remote_file.content):
            repo.fetch(file)
            return None
        head(remote_file)
        return remote_file

    try:
        return RangedFiles({file.path: file for file in pool.map(open_remote, absent) if file}, pool, downloads)
    except BaseException:
        downloads.stopped.set()
        pool.shutdown(wait=False, cancel_futures=True)
        raise


class Range(NamedTuple):
    """Bytes of a file that were asked for."""

    start: int
    stop: int
    coming: Future[None]  # done when they are on this disk


class RangeList(list[Range]):
    """The ranges of one file that were asked for, ascending; none of them meets another."""

    def among(self, start: int, stop: int) -> list[Range]:
        """Return the ranges that hold some of these bytes."""
        first = bisect.bisect_right(self, start, key=itemgetter(1))
        return self[first : bisect.bisect_left(self, stop, key=itemgetter(0))]

    def missing(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each range of these bytes that was not asked for."""
        for one in self.among(start, stop):
            if start < one.start:
                yield start, one.start
            start = one.stop
        if start < stop:
            yield start, stop

    def add(self, start: int, stop: int, coming: Future[None]) -> None:
        """Take note of bytes that were missing."""
        bisect.insort(self, Range(start, stop, coming), key=itemgetter(0))


class RemoteCheckpoint(Checkpoint):
    """The tensors of one model on the Hub, each downloaded once and kept; several threads may read at once."""

    remote = True

    def __init__(
        self, stored: Mapping[str, StoredTensor], tensors: Mapping[str, TensorInfo], ranged: RangedFiles
    ) -> None:
        # Ranges are written into these files while other tensors of them are read, so their stamps are not compared.
        unstamped = {name: replace(one, stamp=None) for name, one in stored.items() if one.file in ranged.files}
        super().__init__({**stored, **unstamped}, tensors)
        self._files, self._pool, self._downloads = ranged.files, ranged.pool, ranged.downloads
        self._lock = threading.RLock()
        self._held = {path: RangeList() for path in ranged.files}

    def content(self, file: Path) -> str:
        """Return the Hub's name of the content of a file, its SHA-256 if it is large; empty if unknown."""
        return self._files[file].content if file in self._files else super().content(file)

    def read_parts(self, name: str, rows: slice | None = None) -> list[NDArray[Any]]:
        """Return the stored parts of one tensor once all of it has been downloaded; raise as `wait` does."""
        self.wait(name)
        return super().read_parts(name, rows)

    def _read(self, name: str, parts: Iterable[StoredTensor], memory: Memory | None = None) -> list[NDArray[Any]]:
        wanted = list(parts)
        self.prefetch_pieces(wanted)
        self._await_arrival(wanted)
        return super()._read(name, wanted, memory)

    def at_hand(self, name: str) -> bool:
        """Return whether a tensor can be read without a download: it was asked for before, or its file is here."""
        return not any(self._missing(part) for part in self.parts([name]).values())

    def wait(self, *names: str) -> None:
        """Return when these tensors have been downloaded; raise NetworkError if they cannot be."""
        self.prefetch(*names)
        self._await_arrival(self.parts(names).values())

    def release(self) -> None:
        """Cancel the downloads that are still running; the checkpoint cannot be used after that."""
        with self._lock:
            ranges = [one for path, file in self._files.items() for one in self._held[path].among(0, file.size)]
        if not all(one.coming.done() for one in ranges):
            self._downloads.stopped.set()

    def _missing(self, tensor: StoredTensor) -> list[tuple[int, int]]:
        if (file := self._files.get(tensor.file)) is None:
            return []
        start = max(tensor.start, file.head)
        return list(self._held[tensor.file].missing(start, tensor.start + tensor.size))

    def prefetch_pieces(self, pieces: Iterable[StoredTensor], gap: int | None = None) -> None:
        """Fetch rows of stored matrices in the background; one request covers rows with a gap of few bytes (GAP)."""
        gap = GAP if gap is None else gap
        with self._lock:
            missing: dict[Path, list[tuple[int, int]]] = defaultdict(list)
            for tensor in pieces:
                if tensor.file in self._files:
                    missing[tensor.file] += self._missing(tensor)
                else:
                    tensor.prefetch()
            for path, ranges in missing.items():
                fetch, known, runs = self._files[path].fetch, self._held[path], list[tuple[int, int]]()
                for start, stop in sorted(ranges):  # with a small gap between them, all of it missing, two become one
                    if runs and start - runs[-1][1] <= gap and not known.among(runs[-1][1], start):
                        runs[-1] = runs[-1][0], max(runs[-1][1], stop)
                    else:
                        runs.append((start, stop))
                for start, stop in runs:
                    for begin in range(start, stop, LARGEST_RANGE):
                        end = min(begin + LARGEST_RANGE, stop)
                        known.add(begin, end, self._pool.submit(fetch, begin, end))

    def _await_arrival(self, tensors: Iterable[StoredTensor]) -> None:
        with self._lock:
            ranges = [
                one
                for tensor in tensors
                if tensor.file in self._files
                for one in self._held[tensor.file].among(tensor.start, tensor.start + tensor.size)
            ]
        for one in ranges:
            one.coming.result()
