"""A small Hub: folders served over HTTP to the real huggingface_hub client, as far as snapshots and listings go."""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

_API = re.compile(r"/api/models/(?P<name>.+?)(/(?P<what>revision|tree)/(?P<revision>.+))?")
_FILE = re.compile(r"/(?P<name>.+?)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")

Route = tuple[str, re.Pattern[str], Callable[[re.Match[str], dict[str, str], bytes], tuple[int, Any]]]


@dataclass
class Hub:
    """What is published, what is refused, and what was asked for."""

    url: str = ""
    published: dict[str, dict[str, Path]] = field(default_factory=dict)
    """Name -> revision (a branch, a tag or a commit) -> folder."""
    refused: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Name -> status and X-Error-Code; a gated repository still answers who it is, as on the real Hub."""
    requests: list[str] = field(default_factory=list)
    """Method and path."""
    tokens: set[str] = field(default_factory=set)
    """Every Authorization header that was sent."""

    routes: list[Route] = field(default_factory=list)
    """What is answered besides: method, path, and a function of the match, the query and the body."""

    def publish(self, name: str, folder: Path, revision: str = "main") -> str:
        """Serve a folder under a name and return its commit."""
        commit = hashlib.sha1(f"{name} {revision} {folder}".encode()).hexdigest()
        self.published.setdefault(name, {}).update({revision: folder, commit: folder})
        return commit

    def commit(self, name: str, revision: str) -> str:
        """The commit that a revision of a published model means."""
        known = self.published[name]
        return next(key for key, folder in known.items() if len(key) == 40 and folder == known[revision])

    def downloads(self) -> set[str]:
        """The files that were fetched."""
        found = (_FILE.fullmatch(request.removeprefix("GET ")) for request in self.requests)
        return {f"{match['name']}/{match['file']}" for match in found if match}


@contextmanager
def serving() -> Iterator[Hub]:
    """Run a Hub on a free port of this machine."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        self.hub.tokens.add(self.headers.get("Authorization", ""))
        query, body = (
            dict(parse_qsl(urlsplit(self.path).query)),
            self.rfile.read(int(self.headers["Content-Length"] or 0)),
        )
        for method, pattern, answer in self.hub.routes:
            if method == self.command and (match := pattern.fullmatch(path)):
                return self._json(*reversed(answer(match, query, body)))
        asked = _FILE.fullmatch(path) or _API.fullmatch(path)
        if asked is None:
            return self._refuse(404, "EntryNotFound")
        name, revision = asked["name"], asked["revision"] or "main"
        status, code = self.hub.refused.get(name, (0, ""))
        if status and (code != "GatedRepo" or asked.re is _FILE):
            return self._refuse(status, code)
        if name not in self.hub.published:
            return self._refuse(404, "RepoNotFound")
        if revision not in self.hub.published[name]:
            return self._refuse(404, "RevisionNotFound")
        folder, commit = self.hub.published[name][revision], self.hub.commit(name, revision)
        if asked.re is _FILE:
            return self._file(folder / asked["file"], commit)
        return self._json(_tree(folder) if asked["what"] == "tree" else _info(name, commit, folder))

    do_HEAD = do_POST = do_GET

    def _file(self, file: Path, commit: str) -> None:
        if not file.is_file():
            return self._refuse(404, "EntryNotFound", commit)
        content = file.read_bytes()
        return self._send(200, content, {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha1(content).hexdigest()}"'})

    def _json(self, value: Any, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _refuse(self, status: int, code: str, commit: str = "") -> None:
        self._send(status, b"", {"X-Error-Code": code, "X-Error-Message": "refused", "X-Repo-Commit": commit})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


def _paths(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _info(name: str, commit: str, folder: Path) -> dict[str, Any]:
    siblings = [{"rfilename": file.relative_to(folder).as_posix()} for file in _paths(folder)]
    return {"_id": "0", "id": name, "modelId": name, "sha": commit, "private": False, "siblings": siblings}


def _tree(folder: Path) -> list[dict[str, Any]]:
    return [
        {
            "type": "file",
            "oid": hashlib.sha1(file.read_bytes()).hexdigest(),
            "size": file.stat().st_size,
            "path": file.relative_to(folder).as_posix(),
        }
        for file in _paths(folder)
    ]
