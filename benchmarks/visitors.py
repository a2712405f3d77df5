"""Visitors: what the examples that answer everybody take of memory and disk while a thousand hostile requests come.

`python -m benchmarks.visitors` starts the Space and the receiver of webhooks on the loopback address, each with a Hub
that never answers, sends the requests over so many connections at once, and writes what was answered and taken.
`--examples` names a folder with another version of the two.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.machine import machine
from tests.examples import spaces
from tests.invoking import environment

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_name("results") / "visitors.json"
SECRET, MARK = "a secret of the webhook", b"quoted-by-the-server"
LONG = 48 * 10**6
PATIENCE = 20
"""Seconds that a visitor waits for the first line of an answer."""
HUNG_UP, UNANSWERED = "hung up", "unanswered"
JSON = {"Content-Type": "application/json"}
UPLOAD = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n', bytes(2**20), b"\r\n--x--\r\n"


@dataclass(frozen=True)
class Request:
    """What a visitor sends: the first lines, and a body of parts that are sent as long as they are taken."""

    path: str
    body: Sequence[bytes] = ()
    headers: tuple[tuple[str, str], ...] = ()
    method: str = "POST"
    length: int | None = None
    """What the request says of the length of the body, if that is not so; 0 for a body in chunks."""

    def knowing(self, secret: str) -> Request:
        """Return the request of somebody who knows, or believes to know, the secret."""
        return Request(self.path, self.body, (*self.headers, ("X-Webhook-Secret", secret)), self.method, self.length)

    def sent(self) -> Iterator[bytes]:
        """The parts of the request as they go over the wire."""
        length = sum(map(len, self.body)) if self.length is None else self.length
        framing = f"Content-Length: {length}" if length or not self.body else "Transfer-Encoding: chunked"
        lines = [f"{self.method} {self.path} HTTP/1.1", "Host: localhost", framing, *map(": ".join, self.headers)]
        yield "\r\n".join([*lines, "", ""]).encode()
        for part in self.body:
            yield part if length else b"%x\r\n%s\r\n" % (len(part), part)
        if self.body and not length:
            yield b"0\r\n\r\n"


def hostile(form: str) -> tuple[Request, ...]:
    """Return what is sent to any server; `form` is the path of the one that takes a body."""
    parts = [b'["' + MARK, *[b"x" * 2**16] * (LONG // 2**16), b'"]']
    return (
        Request("/gradio_api/upload", UPLOAD, (("Content-Type", "multipart/form-data; boundary=x"),)),
        Request(form, parts, tuple(JSON.items())),
        Request(form, parts, tuple(JSON.items()), length=0),
        Request(form, [b"[" * 60_000], tuple(JSON.items())),
        Request(form, [b'{"odd": "%s"}' % MARK], tuple(JSON.items())),
        Request(form, [b"{"], tuple(JSON.items()), length=1000),
        Request("/", headers=tuple((f"X-{number}", "x" * 1000) for number in range(1000)), method="GET"),
        Request("/gradio_api/file=/etc/passwd", method="GET"),
        Request("/gradio_api/deep_link?session_hash=x", method="GET"),
        Request("/gradio_api/proxy=http://127.0.0.1:9/", method="GET"),
        Request("/gradio_api/queue/data?session_hash=nobody", method="GET"),
    )


def joining(number: int) -> Request:
    """Return a request of the form of the Space, by somebody who never fetches the answer."""
    data: dict[str, Any] = {"data": ["org/model", "<b>" * 9000], "fn_index": number % 2, "session_hash": f"s{number}"}
    return Request("/gradio_api/queue/join", [json.dumps(data).encode()], tuple(JSON.items()))


def push(commit: str) -> Request:
    """Return an event as the Hub sends it after a push."""
    event = {
        "event": {"action": "update", "scope": "repo.content"},
        "repo": {
            "type": "model", "name": "org/model", "id": "0", "private": False, "headSha": commit,
            "url": {"web": "https://hub/org/model", "api": "https://hub/api/models/org/model"}, "owner": {"id": "1"},
        },
        "webhook": {"id": "2", "version": 3},
        "updatedRefs": [{"ref": "refs/heads/main", "oldSha": None, "newSha": commit}],
    }  # fmt: skip
    return Request("/webhooks/lineage", [json.dumps(event).encode()], tuple(JSON.items()))


def to_space() -> Iterator[Request]:
    """Hostile requests to the Space, each kind in turn."""
    for number in itertools.count():
        yield from (*hostile("/gradio_api/queue/join"), joining(2 * number), joining(2 * number + 1))


def to_receiver() -> Iterator[Request]:
    """Hostile requests to the receiver, each kind in turn: of those who know the secret, and of others."""
    requests, event = hostile("/webhooks/lineage"), push("a" * 40)
    known = [request.knowing(SECRET) for request in (*requests[1:6], event)]
    return itertools.cycle((*requests, event, event.knowing("another secret"), *known))


@dataclass(frozen=True)
class Example:
    """A server that is visited."""

    script: str
    ready: str
    requests: Iterator[Request]
    honest: Request
    """What is answered afterwards as if nothing had been."""


def examples() -> dict[str, Example]:
    """Return the servers by their names."""
    page = Request("/", method="GET")
    return {
        "Space": Example("space/app.py", "Running on local URL", to_space(), page),
        "receiver": Example(
            "webhook/receiver.py", "Webhooks are correctly setup", to_receiver(), push("b" * 40).knowing(SECRET)
        ),
    }


def measured(example: Example, folder: Path, count: int, connections: int) -> dict[str, Any]:
    """Return what a server has answered, and what it has taken meanwhile."""
    with tempfile.TemporaryDirectory() as scratch, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        room = Path(scratch, "room")
        room.mkdir()
        env = environment(
            HF_ENDPOINT=f"http://127.0.0.1:{silent.getsockname()[1]}", HF_HUB_OFFLINE="0", WEBHOOK_SECRET=SECRET,
            TMPDIR=str(room), GRADIO_TEMP_DIR=str(room / "uploads"), LINEAGE_CACHE=str(room), HF_HOME=str(room),
        )  # fmt: skip
        log = Path(scratch, "log")
        with spaces.running(str(folder / example.script), example.ready, env, log) as server, watched(room) as disk:
            before, begun = memory(server), time.monotonic()
            answers = asyncio.run(visited(server, itertools.islice(example.requests, count), connections))
            seconds = time.monotonic() - begun
            honest, _ = asyncio.run(visit(server, example.honest))
            return {
                "requests": count, "connections": connections, "seconds": round(seconds, 1),
                "answers": dict(sorted(Counter(status for status, _ in answers).items())),
                "answers that quote the request": sum(MARK in text for _, text in answers),
                "honest request afterwards": honest,
                "memory before, MB": round(before / 1e6), "peak memory, MB": round(memory(server) / 1e6),
                "peak disk, MB": round(max(disk) / 1e6, 3), "log, MB": round(log.stat().st_size / 1e6, 3),
            }  # fmt: skip


def memory(server: spaces.Server) -> int:
    """Return the bytes that a server has held at most."""
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    return int(peak[1]) * 1024


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[list[int]]:
    """Write down every moment how many bytes the files of a folder have."""
    sizes, end = [0], threading.Event()

    def watch() -> None:
        while not end.wait(0.1):
            total = 0
            for file in folder.rglob("*"):
                with contextlib.suppress(OSError):
                    total += file.lstat().st_size if file.is_file() else 0
            sizes.append(total)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield sizes
    finally:
        end.set()
        watcher.join()


async def visited(server: spaces.Server, requests: Iterator[Request], connections: int) -> list[tuple[str, bytes]]:
    """Return the statuses and the beginnings of the answers to requests, so many of which are made at once."""
    answers: list[tuple[str, bytes]] = []

    async def visitor() -> None:
        for request in requests:
            answers.append(await visit(server, request))

    await asyncio.gather(*(visitor() for _ in range(connections)))
    return answers


async def visit(server: spaces.Server, request: Request) -> tuple[str, bytes]:
    """Return the status of the answer to a request, and its first bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))

    async def send() -> None:
        with contextlib.suppress(ConnectionError):
            for part in request.sent():
                writer.write(part)
                await writer.drain()

    sending = asyncio.create_task(send())
    try:
        first = await asyncio.wait_for(reader.readline(), PATIENCE)
        rest = b""
        with contextlib.suppress(TimeoutError):  # a stream does not end
            while (part := await asyncio.wait_for(reader.read(2**16), 2)) and len(rest) < 2**20:
                rest += part
        return first.decode().split(" ")[1] if first else HUNG_UP, rest
    except ConnectionError:
        return HUNG_UP, b""
    except TimeoutError:
        return UNANSWERED, b""
    finally:
        sending.cancel()
        writer.close()
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await sending


@click.command()
@click.option("--requests", "count", default=1000, show_default=True)
@click.option("--connections", default=64, show_default=True)
@click.option("--examples", "folder", type=click.Path(path_type=Path, exists=True), default=ROOT / "examples")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), default=FILE)
def main(count: int, connections: int, folder: Path, output: Path) -> None:
    """Visit both servers, print what they took and write it."""
    rows = []
    for name, example in examples().items():
        rows.append({"server": name} | measured(example, folder.resolve(), count, connections))
        click.echo(json.dumps(rows[-1], indent=1))
    document = {"machine": machine(), "command": "python -m benchmarks.visitors", "rows": rows}
    output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
