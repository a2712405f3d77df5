"""Remote: a checkpoint on the Hub of which only the tensors that are read are downloaded."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import TensorInfo
from hf_lineage.files.tensor_file import OPEN_FILES
from hf_lineage.hub.ranges import LARGEST_RANGE, Downloads, RangedFile
from hf_lineage.hub.reference import RepoRef

if TYPE_CHECKING:
    from hf_lineage.checkpoint.memory import Memory

AT_ONCE = 8
"""Requests at a time; with more, the Hub's limits are reached before the bandwidth is used up."""
GAP = 2**18
"""Bytes between two wanted tensors up to which both are fetched with one request."""


def ranged(
    repo: RepoRef, files: Iterable[str], head: Callable[[RangedFile], None]
) -> tuple[list[RangedFile], Executor, Downloads]:
    """Return those of some files of which only ranges are downloaded, and who downloads them.

    `head` fetches the header of each. The others are on this disk afterwards: what the cache holds, under this commit
    or another, is not fetched again, and a system without files that have no name fetches all of it.
    """
    absent = [file for file in files if not repo.has(file)]
    if absent and not OPEN_FILES.is_dir():
        repo.fetch(*absent)
        absent = []
    downloads, pool = Downloads(), ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ranges")

    def opened(file: str) -> RangedFile | None:
        remote_file = RangedFile(repo, file, downloads)
        if repo.has_cached(remote_file.content):
            repo.fetch(file)
            return None
        head(remote_file)
        return remote_file

    try:
        return [file for file in pool.map(opened, absent) if file], pool, downloads
    except BaseException:
        downloads.stopped.set()
        pool.shutdown(wait=False, cancel_futures=True)
        raise


class RemoteCheckpoint(Checkpoint):
    """The tensors of one model, some of whose files are on the Hub.

    Each tensor is downloaded once and stays on the disk as long as the checkpoint. Several threads may read at once.
    """

    def __init__(
        self,
        stored: Mapping[str, StoredTensor],
        tensors: Mapping[str, TensorInfo],
        files: Mapping[Path, RangedFile],
        pool: Executor,
        downloads: Downloads,
    ) -> None:
        # Ranges are written into these files while other tensors of them are read, so their stamps are not compared.
        super().__init__(
            {name: replace(tensor, stamp=None) if tensor.file in files else tensor for name, tensor in stored.items()},
            tensors,
        )
        self._files, self._pool, self._downloads = files, pool, downloads
        self._lock = threading.RLock()
        self._requested: set[str] = set()
        self._pending: dict[Path, list[Future[None]]] = defaultdict(list)
        self._pieces_pending: dict[StoredTensor, Future[None]] = {}
        self._ordered: dict[Path, list[str]] = defaultdict(list)
        for name, tensor in sorted(stored.items(), key=lambda item: item[1].start):
            self._ordered[tensor.file].append(name)

    @property
    def requests(self) -> int:
        """How many requests were made."""
        return self._downloads.requests

    @property
    def bytes_read(self) -> int:
        """How many bytes were downloaded."""
        return self._downloads.downloaded

    def prefetch(self, *names: str) -> None:
        """Fetch these tensors in the background, each once, neighbours with one request."""
        with self._lock:
            self._prefetch(names)

    def _prefetch(self, names: Iterable[str]) -> None:
        missing: dict[Path, set[str]] = defaultdict(set)
        for name in sorted(set(self.parts(names)) - self._requested):
            missing[self.stored[name].file].add(name)
        for path, wanted in missing.items():
            if path not in self._files:
                for name in wanted:
                    self.stored[name].prefetch()
                continue
            for run in self._runs(path, wanted):
                self._requested |= set(run)
                for start, stop in self._pieces(path, run):
                    self._pending[path].append(self._pool.submit(self._files[path].fetch, start, stop))

    def read(self, name: str, memory: Memory | None = None) -> NDArray[Any]:
        """Return one tensor once it has been downloaded, otherwise as `Checkpoint.read` does.

        Raise NetworkError if it cannot be fetched, CheckpointError if the file has changed.
        """
        self.wait(name)
        return super().read(name, memory)

    def prefetch_pieces(self, pieces: Iterable[StoredTensor]) -> None:
        """Fetch rows of stored matrices in the background, with one request what is separated by a small gap alone."""
        with self._lock:
            missing = {piece for piece in pieces if piece not in self._pieces_pending}
            super().prefetch_pieces(piece for piece in missing if piece.file not in self._files)
            for path, file in self._files.items():
                wanted = sorted((piece for piece in missing if piece.file == path), key=lambda piece: piece.start)
                for run in _close(wanted):
                    start, stop = max(run[0].start, file.head), run[-1].start + run[-1].size
                    self._pieces_pending |= dict.fromkeys(run, self._pool.submit(file.fetch, start, stop))

    def read_pieces(self, name: str, pieces: Iterable[StoredTensor]) -> NDArray[Any]:
        """Return rows of one matrix once they have been downloaded; raise as `read` does."""
        wanted = list(pieces)
        if name in self.tensors and self.at_hand(name):
            self.wait(name)
        else:
            self.prefetch_pieces(wanted)
        for piece in wanted:
            if piece in self._pieces_pending:
                self._pieces_pending[piece].result()
        return super().read_pieces(name, wanted)

    def at_hand(self, name: str) -> bool:
        """Return whether a tensor can be read without a download: it was requested before, or its file is here."""
        return all(
            part in self._requested or stored.file not in self._files for part, stored in self.parts([name]).items()
        )

    def wait(self, *names: str) -> None:
        """Return when these tensors have been downloaded; raise NetworkError if they cannot be."""
        with self._lock:
            self.prefetch(*names)
            for path in {part.file for part in self.parts(names).values()}:
                for part in self._pending[path]:
                    part.result()
                self._pending[path].clear()

    def release(self) -> None:
        """Cancel the downloads that are still running; the checkpoint cannot be used after that."""
        pending = [*itertools.chain(*list(self._pending.values())), *list(self._pieces_pending.values())]
        if not all(part.done() for part in pending):
            self._downloads.stopped.set()

    def _runs(self, path: Path, wanted: set[str]) -> Iterator[list[str]]:
        """Runs of wanted tensors of one file, with those between them that are small and not requested yet."""
        run: list[str] = []
        between: list[str] = []
        for name in self._ordered[path]:
            if name not in wanted:
                between.append(name)
                continue
            fetched = any(other in self._requested for other in between)
            if run and (fetched or sum(self.stored[other].size for other in between) > GAP):
                yield run
                run = []
            run = [*run, *between, name] if run else [name]
            between = []
        if run:
            yield run

    def _pieces(self, path: Path, run: Iterable[str]) -> Iterator[tuple[int, int]]:
        """The ranges of one run, without the bytes that were fetched with the header."""
        first, *_, last = (*run, *run)
        start = max(self.stored[first].start, self._files[path].head)
        stop = self.stored[last].start + self.stored[last].size
        return ((begin, min(begin + LARGEST_RANGE, stop)) for begin in range(start, stop, LARGEST_RANGE))


def _close(pieces: Iterable[StoredTensor]) -> Iterator[list[StoredTensor]]:
    """Runs of pieces of one file, in the order of their bytes, that lie close together and make no large range."""
    run: list[StoredTensor] = []
    for piece in pieces:
        end = piece.start + piece.size
        if run and (piece.start - run[-1].start - run[-1].size > GAP or end - run[0].start > LARGEST_RANGE):
            yield run
            run = []
        run.append(piece)
    if run:
        yield run
