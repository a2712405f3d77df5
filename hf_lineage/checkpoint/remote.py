"""Remote: a checkpoint on the Hub of which only those tensors are fetched that are read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hf_lineage.checkpoint.local import Checkpoint, TensorInfo
from hf_lineage.checkpoint.ranges import LARGEST_RANGE, RangedFile, Traffic

if TYPE_CHECKING:
    import torch

AT_ONCE = 8
"""Requests; with more of them the Hub's limits are met sooner than the line is full."""
GAP = 2**18
"""Bytes between two wanted tensors that cost less than another request."""


class RemoteCheckpoint(Checkpoint):
    """The tensors of one model, some of whose files are on the Hub.

    What was fetched once stays for as long as the checkpoint. One thread at a time may use it.
    """

    def __init__(
        self, tensors: Mapping[str, TensorInfo], files: Mapping[Path, RangedFile], pool: Executor, traffic: Traffic
    ) -> None:
        # What was fetched comes into the file while others of its tensors are read.
        super().__init__(
            {name: replace(info, stamp=None) if info.file in files else info for name, info in tensors.items()}
        )
        self._files, self._pool, self._traffic = files, pool, traffic
        self._asked: set[str] = set()
        self._coming: dict[Path, list[Future[None]]] = defaultdict(list)
        self._stored: dict[Path, list[str]] = defaultdict(list)
        for name, info in sorted(tensors.items(), key=lambda item: item[1].start):
            self._stored[info.file].append(name)

    @property
    def requests(self) -> int:
        """How many requests were made."""
        return self._traffic.requests

    @property
    def bytes_read(self) -> int:
        """How many bytes came over the network."""
        return self._traffic.bytes_read

    def prefetch(self, *names: str) -> None:
        """Fetch these tensors in the background, each once, neighbours with one request."""
        missing: dict[Path, set[str]] = defaultdict(set)
        for name in sorted(set(names) - self._asked):
            missing[self.tensors[name].file].add(name)
        for path, wanted in missing.items():
            if path not in self._files:
                super().prefetch(*wanted)
                continue
            for run in self._runs(path, wanted):
                self._asked |= set(run)
                for start, stop in self._pieces(path, run):
                    self._coming[path].append(self._pool.submit(self._files[path].fetch, start, stop))

    def read(self, name: str) -> torch.Tensor:
        """Return one tensor as stored, as `Checkpoint.read` does, once it has come.

        Raise NetworkError if it cannot be fetched, CheckpointError if the file is not what it was.
        """
        self.prefetch(name)
        path = self.tensors[name].file
        if self._coming[path]:
            for part in self._coming[path]:
                part.result()
            self._coming[path].clear()
        return super().read(name)

    def release(self) -> None:
        """Whatever is still coming is no longer wanted, and neither is the checkpoint."""
        if any(not part.done() for parts in list(self._coming.values()) for part in list(parts)):
            self._traffic.stopped.set()

    def _runs(self, path: Path, wanted: set[str]) -> Iterator[list[str]]:
        """Wanted tensors of one file with what lies between them, where that is little and not there yet."""
        run: list[str] = []
        between: list[str] = []
        for name in self._stored[path]:
            if name not in wanted:
                between.append(name)
                continue
            known = any(other in self._asked for other in between)
            if run and (known or sum(self.tensors[other].size for other in between) > GAP):
                yield run
                run = []
            run = [*run, *between, name] if run else [name]
            between = []
        if run:
            yield run

    def _pieces(self, path: Path, run: Iterable[str]) -> Iterator[tuple[int, int]]:
        """The ranges of one run, without what came with the header."""
        first, *_, last = (*run, *run)
        start = max(self.tensors[first].start, self._files[path].head)
        stop = self.tensors[last].start + self.tensors[last].size
        return ((begin, min(begin + LARGEST_RANGE, stop)) for begin in range(start, stop, LARGEST_RANGE))
