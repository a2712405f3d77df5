"""Decoders: the processes that decode shards of an index, each used by one reader after the other.

To start one takes a quarter of a second, more than most tests of an index take otherwise. In the program every reader
has a process of its own; `tests/index/storage/test_reader.py` and `test_decoding.py` test it as it is there.
"""

import os
import subprocess
from collections import defaultdict

from hf_lineage.index.storage import reader
from hf_lineage.index.storage.decoding import GROUP

IDLE: defaultdict[int, list[subprocess.Popen[bytes]]] = defaultdict(list)
"""Of this process, and of one that it was forked into: decoders that wait for a request."""
ANSWERING: set[int] = set()
"""The numbers of the decoders of which not every frame of an answer was read."""


def share(monkeypatch):
    """Let every reader begin with a decoder that another reader is done with."""
    started, asked, frame = reader.Reader._started, reader.Reader._asked, reader._frame

    def taken(self):
        if self._process is None and IDLE[os.getpid()]:
            self._process = IDLE[os.getpid()].pop()
        return started(self)

    def noted(self, request):
        process = asked(self, request)
        ANSWERING.add(process.pid)
        return process

    def followed(process):
        kind, content = frame(process)
        if kind != GROUP:
            ANSWERING.discard(process.pid)
        return kind, content

    def left(self, *_):
        if self._process is None or self._process.pid in ANSWERING:
            self.close()
        else:
            IDLE[os.getpid()].append(self._process)
            self._process = None

    monkeypatch.setattr(reader.Reader, "_started", taken)
    monkeypatch.setattr(reader.Reader, "_asked", noted)
    monkeypatch.setattr(reader.Reader, "__exit__", left)
    monkeypatch.setattr(reader, "_frame", followed)


def end():
    """End the decoders that wait."""
    for process in IDLE.pop(os.getpid(), []):
        process.kill()
        process.communicate()
