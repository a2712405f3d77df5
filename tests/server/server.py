"""Two servers on this machine, the Hub and its CDN: sockets in front of the routes."""

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import tests.server.commits
import tests.server.reading  # noqa: F401 - all enter their routes
from tests.server.hub import LARGE_FILE, Answer, Hub, Part, Request, answer


@contextmanager
def serving() -> Iterator[Hub]:
    hub = Hub()
    with ExitStack() as stack:
        hub.url, hub.cdn = (stack.enter_context(_server(hub, place)) for place in ("hub", "cdn"))
        try:
            yield hub
        finally:
            hub.closing.set()


@contextmanager
def _server(hub: Hub, place: str) -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub, "place": place}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    place: str
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _answer(self) -> None:
        parts, headers = urlsplit(self.path), {key.lower(): value for key, value in self.headers.items()}
        body, query = self.rfile.read(int(headers.get("content-length", 0))), dict(parse_qsl(parts.query))
        request = Request(self.command, self.path, parts.path, query, headers, body, self.place)
        hub, token, on_cdn = self.hub, headers.get("authorization", ""), self.place == "cdn"
        with hub.lock:
            if on_cdn:
                hub.at_once += 1
                hub.most_at_once = max(hub.most_at_once, hub.at_once)
                hub.leaked |= {token} - {""}
            else:
                hub.requests.append(f"{request.method} {unquote(request.path)}")
                hub.tokens.add(token)
        try:
            said = hub.spoiled(request, answer(hub, request))
            if said.pause:
                hub.closing.wait(said.pause)
            with suppress(ConnectionError):
                self._send(request, said)
        finally:
            with hub.lock:
                hub.at_once -= on_cdn

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _answer

    def _send(self, request: Request, said: Answer) -> None:
        self.close_connection = said.cut is not None or not said.status
        if not said.status:
            return
        body = said.body[: said.cut] if request.method != "HEAD" else b""
        if self.place == "cdn" and said.file is not None:
            start = int(said.headers.get("Content-Range", "bytes 0-").removeprefix("bytes ").partition("-")[0])
            name = LARGE_FILE.sub(r"\1/\2", unquote(request.path))
            with self.hub.lock:
                self.hub.parts.append(Part(name, start, start + len(body)))
        self.send_response(said.status)
        for key, value in {**said.headers, "Content-Length": str(len(said.body))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""
