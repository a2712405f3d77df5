"""Worker: the process that loads a model, runs it, and hands back plain numbers, without a network.

It reads one request a line from its standard input, and answers each with a line: values, or why there are none.
"""

import contextlib
import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from hf_lineage.running.process import TOKENIZER, Load, Writer


def without_network() -> None:
    """Leave this process without a network: by the kernel where it lets, and in Python in any case."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise OSError("a process that runs a model has no network")

    with contextlib.suppress(Exception):
        ctypes.CDLL(None).unshare(0x10000000 | 0x40000000)  # CLONE_NEWUSER, CLONE_NEWNET: no network in it
    socket.socket.connect = refuse  # type: ignore[method-assign]
    socket.socket.connect_ex = refuse  # type: ignore[method-assign]
    socket.create_connection = socket.getaddrinfo = refuse


def limit_memory(limit: int) -> None:
    """Take no more memory than this, where the system can hold a process to it."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Server:
    """Answers requests about one model."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loaded: Any = None
        self._tokenizer = Path()
        self._ran: list[Any] = []  # per kind: the input, how the model runs on it, and what it gave out

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that answer one request; an exception says why there are none."""
        actions: dict[str, Callable[..., dict[str, Any]]] = {"load": self._load, "run": self._run, "hold": self._hold}
        return actions[request["action"]](**request["given"])

    def _load(self, writers: list[dict[str, Any]], **settings: Any) -> dict[str, Any]:
        spec = Load(writers=[Writer(**each) for each in writers], **settings)
        limit_memory(spec.limit)
        from hf_lineage.running.load import load

        self._loaded, self._tokenizer = load(spec, self._folder), Path(spec.folder, TOKENIZER)
        numbers = sum(each.numel() for each in self._loaded.model.parameters())
        return {"unexpected": list(self._loaded.unexpected), "numbers": numbers, "on_disk": self._loaded.on_disk}

    def _run(self, seed: int) -> dict[str, Any]:
        from hf_lineage.running.hooks import Running, draw
        from hf_lineage.running.load import CannotRunError

        for each in draw(self._loaded.model, self._tokenizer, seed):
            run = Running(self._loaded, each.counted_tokens)
            output = run.go(each.arguments)
            if not output[0].isfinite().all():
                raise CannotRunError("what it says is not finite")
            self._ran.append((each, run, output))
        return {each.kind: list(each.arguments["input_ids"].shape) for each, _, _ in self._ran}

    def _hold(self, parts: dict[str, list[int]]) -> dict[str, Any]:
        from hf_lineage.running.hooks import divergences, held_inputs

        values = {}
        for each, run, output in self._ran:
            after = run.go(each.arguments, held_inputs(self._loaded, parts))
            unit, moved, says = divergences(output, after, each.counted_tokens)
            values[each.kind] = {"unit": unit, "says": says, "lost": moved.tolist()}
        return values


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    without_network()
    server = Server(Path(sys.argv[1]))
    for line in sys.stdin:
        answer: dict[str, Any]
        try:
            answer = {"values": server.answer(json.loads(line))}
        except MemoryError:
            answer = {"problem": "it takes more memory than it may have"}
        except Exception as error:
            answer = {"problem": str(error).partition("\n")[0][:500] or type(error).__name__}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
