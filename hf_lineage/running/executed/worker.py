"""Worker: the process that loads a model, runs it, and hands back plain arrays.

It reads one request a line from its standard input, and answers each with a line: the name of a file with arrays, and
values beside them, or why it could not. It has no network, and bounds on its memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from hf_lineage.running.executed.request import LENGTH, LONG, PASSED, SEQUENCES, WRITTEN, Load, Writer

NEW_NETWORK = 0x10000000 | 0x40000000
"""CLONE_NEWUSER and CLONE_NEWNET: a name space with no network in it."""


def without_network() -> None:
    """Leave this process without a network: by the kernel where it lets, and in Python in any case."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise OSError("a process that runs a model has no network")

    with contextlib.suppress(Exception):
        ctypes.CDLL(None).unshare(NEW_NETWORK)
    socket.socket.connect = refuse  # type: ignore[method-assign]
    socket.socket.connect_ex = refuse  # type: ignore[method-assign]
    socket.create_connection = socket.getaddrinfo = refuse


def bounded(limit: int) -> None:
    """Take no more memory than this, where the system can hold a process to it."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Server:
    """Answers requests about one model."""

    def __init__(self, folder: Path, passed: Callable[[], None] = lambda: None) -> None:
        self._folder, self._number = folder, 0
        self._passed = passed
        """Called whenever the model has run."""
        self._loaded: Any = None
        self._input: Any = None
        """The first kind of input, on which parts are held at their mean, which the next two are of."""
        self._means: Any = None
        self._output: Any = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to one request; an exception says why there is none."""
        actions: dict[str, Callable[..., dict[str, Any]]] = {
            "load": self._load,
            "measure": self._measure,
            "hold": self._hold,
        }
        return actions[request["action"]](**request["given"])

    def _load(self, writers: list[dict[str, Any]], **given: Any) -> dict[str, Any]:
        asked = Load(writers=[Writer(**each) for each in writers], **given)
        bounded(asked.limit)
        from hf_lineage.running.executed.loading import OFFLOADED, load

        self._loaded = load(asked, self._folder)
        self._loaded.model.register_forward_hook(lambda *_: self._passed())
        numbers = sum(each.numel() for each in self._loaded.model.parameters())
        values = {"unexpected": list(self._loaded.unexpected), "numbers": numbers, "on_disk": self._loaded.on_disk}
        values["written"] = sum(file.stat().st_size for file in (self._folder / OFFLOADED).glob("*"))
        return {"values": values | self._estimate(numbers)}

    def _estimate(self, numbers: int) -> dict[str, Any]:
        """How often the model will run to be measured, and about how long that takes, by one of its matrices."""
        import torch

        from hf_lineage.running.executed.inputs import Source

        passes, times = Source(self._loaded.model, 0).passes, [time.perf_counter()]
        if not self._loaded.places:
            return {"passes": passes, "seconds": 0.0}
        matrix = self._loaded.weight(self._loaded.places[0].name).flatten(0, -2)
        times.append(time.perf_counter())
        rows = torch.ones(SEQUENCES, matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
        for _ in range(2):  # the first warms up
            float((rows @ matrix.mT).sum())
            times.append(time.perf_counter())
        tokens = 2 * SEQUENCES * WRITTEN + LONG * LENGTH
        reading = passes * self._loaded.on_disk / matrix.element_size() * (times[1] - times[0])
        working = numbers * tokens / SEQUENCES * (times[3] - times[2])
        return {"passes": passes, "seconds": (reading + working) / matrix.numel()}

    def _measure(self, seed: int) -> dict[str, Any]:
        """What every part writes on each kind of input, by the kind and the key of its writer."""
        from hf_lineage.running.executed.inputs import Source
        from hf_lineage.running.executed.recording import Running, sizes_by_writer

        self._input, *_ = inputs = Source(self._loaded.model, seed).draw()
        arrays, kinds = {}, {}
        for each in inputs:
            run = Running(self._loaded, each.first)
            output = run.go(each.given)
            if each is self._input:
                self._output, self._means = output, run.record.means
            for key, sizes in sizes_by_writer(self._loaded, run.record).items():
                arrays[f"{each.kind} {key}"] = sizes
            kinds[each.kind] = {
                "shape": list(next(iter(each.given.values())).shape),
                "streams": {str(layer): size for layer, size in run.record.streams.items()},
                "tokens": {
                    f"{owner} {at}": count for (owner, at), count in run.record.tokens.items() if at is not None
                },
            }
        return {"values": {"kinds": kinds}, "arrays": arrays}

    def _hold(self, parts: dict[str, list[int]]) -> dict[str, Any]:
        """How far what the model says moves, by sequence, when parts of these writers hold what they are given."""
        from hf_lineage.running.executed.holding import divergences, held_inputs
        from hf_lineage.running.executed.recording import Running

        each = self._input
        held = held_inputs(self._loaded, self._means, parts)
        after = Running(self._loaded, each.first, held).go(each.given)
        unit, moved, says = divergences(self._output, after, each)
        return {"values": {"unit": unit, "kind": each.kind, "says": says}, "arrays": {"moved": moved}}

    def write(self, arrays: Mapping[str, Any]) -> str:
        """Write arrays to a new file and return its name."""
        from safetensors.torch import save_file

        self._number += 1
        name = f"arrays-{self._number}.safetensors"
        save_file({key: array.contiguous().cpu() for key, array in arrays.items()}, self._folder / name)
        return name


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    without_network()

    def tell(line: str) -> None:
        answers.write(line + "\n")
        answers.flush()

    server = Server(Path(sys.argv[1]), lambda: tell(PASSED))
    for line in sys.stdin:
        try:
            answer = server.answer(json.loads(line))
            if arrays := answer.pop("arrays", None):
                answer["file"] = server.write(arrays)
        except MemoryError:
            answer = {"problem": "it takes more memory than it may have"}
        except Exception as error:
            problem = str(error).partition("\n")[0][:500] or type(error).__name__
            answer = {"problem": problem, "not_judged": type(error).__name__ == "NotJudgedError"}
        tell(json.dumps(answer))
