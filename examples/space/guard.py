"""What stands before a server that answers everybody: few paths, small bodies, the secret first, and no echo.

Gradio brings dozens of paths with it, among them an upload of any size to whoever asks, and FastAPI quotes a body that
it does not understand. So a request comes through only if its path is one of those that are named, a request that has
to know a secret is asked for it before its body is read, and a body is read up to a limit before anybody parses it.

The Space and the receiver of webhooks have a copy each, because each is a repository of its own on the Hub.
"""

import asyncio
import contextlib
import hmac
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Mapping[str, Any], Receive, Send], Awaitable[None]]
LARGEST_BODY = 2**16
"""Bytes; events of the Hub, and two names with what Gradio says beside them, take some thousands."""
MOST_OPEN = 200
"""Requests that are answered at once, streams of results among them."""
SECONDS = 10
"""How long a body may take to arrive."""
PHRASES = {401: "the secret is missing", 403: "the secret is another one", 404: "there is nothing here",
           408: "the body took too long", 413: "the body is too large", 503: "too many are waiting"}  # fmt: skip
PAGE = r"/|/config|/theme\.css|/favicon\.ico|/manifest\.json|/(static|assets)/.*|/gradio_api/startup-events"
"""What a page of Gradio reads to be shown."""


class Guard:
    """A server behind a few rules; what is refused is answered here, with nothing of the request in it."""

    def __init__(self, app: App, reads: str, writes: str, secret: str = "") -> None:
        self.app, self.secret, self.open = app, secret.encode(), 0
        self.paths = {"GET": re.compile(reads), "HEAD": re.compile(reads), "POST": re.compile(writes)}

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif status := self._refused(scope):
            await refuse(send, status)
        else:
            self.open += 1
            try:
                await self._answer(scope, receive, send)
            finally:
                self.open -= 1

    def _refused(self, scope: Mapping[str, Any]) -> int:
        """The status with which a request is refused by its first lines; 0 for none."""
        allowed = self.paths.get(scope["method"])
        if allowed is None or not allowed.fullmatch(scope["path"]):
            return 404
        headers = dict(scope["headers"])
        if self.secret and scope["method"] == "POST":
            given = headers.get(b"x-webhook-secret")
            if given is None or not hmac.compare_digest(given, self.secret):
                return 401 if given is None else 403
        if int(headers.get(b"content-length", b"0")) > LARGEST_BODY:
            return 413
        return 503 if self.open >= MOST_OPEN else 0

    async def _answer(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        try:
            body = await asyncio.wait_for(read(receive), SECONDS)
        except TimeoutError:
            await refuse(send, 408)
        except OverflowError:
            await refuse(send, 413)
        else:
            if body is not None:
                await self._pass_on(scope, once(body, receive), Silent(send))

    async def _pass_on(self, scope: Mapping[str, Any], receive: Receive, answer: "Silent") -> None:
        """Have a request answered; of an error one line is logged, for a trace of each would fill the log."""
        try:
            await self.app(scope, receive, answer)
        except Exception as error:
            print(f"a request ended with {type(error).__name__}", file=sys.stderr, flush=True)
            if not answer.begun:
                await answer({"type": "http.response.start", "status": 500})


async def read(receive: Receive) -> bytes | None:
    """Return the body; None if whoever sends it has gone. Raise OverflowError as soon as it is too large."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > LARGEST_BODY:
            raise OverflowError
    return bytes(body)


def once(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read again, and then what comes after it."""
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


class Silent:
    """An answer with a sentence of ours in place of what a server says of an error, which may quote the request."""

    def __init__(self, send: Send) -> None:
        self.send, self.begun, self.refused = send, False, False

    async def __call__(self, message: Message) -> None:
        self.begun = True
        if message["type"] == "http.response.start" and message["status"] >= 400:
            self.refused = True
            await refuse(self.send, message["status"])
        elif not self.refused:
            await self.send(message)


async def refuse(send: Send, status: int) -> None:
    """Answer in one sentence and hang up, so that the rest of a body is not read either."""
    body = b'{"error": "%s"}' % PHRASES.get(status, "this cannot be answered").encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})


def prune(folder: Path, largest: int) -> None:
    """Remove the oldest files of a folder until what is left fits, whatever others write and remove meanwhile."""
    files = sorted(_files(folder))
    total = sum(size for _, size, _ in files)
    for _, size, file in files:
        if total <= largest:
            return
        total -= size
        file.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """When each file was written, its size, and where it is."""
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # it was written under another name, or another check ended
                status = (file := Path(parent, name)).lstat()
                yield status.st_mtime, status.st_size, file
