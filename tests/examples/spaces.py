"""The environment that Spaces run in, a layer upon that of the tests: Gradio wants an older tomlkit."""

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.github import ROOT

PYTHON = ROOT / ".venv/space/bin/python"
MISSING = "there is no environment with Gradio; `make test` makes it"
SECONDS = 90
"""How long a server may take to answer, on a machine that is busy."""
needed = pytest.mark.skipif(sys.platform == "win32", reason="the Spaces of the Hub run on Linux")


def gradio() -> Path:
    """Return the interpreter that has Gradio; where it is missing tests skip, in CI they fail."""
    if not PYTHON.exists():
        (pytest.fail if os.environ.get("CI") and sys.platform == "linux" else pytest.skip)(MISSING)
    return PYTHON


@dataclass(frozen=True)
class Server:
    """A running Space."""

    url: str
    log: Path
    process: "subprocess.Popen[bytes]"

    def lines(self, count: int, containing: str) -> list[str]:
        """Wait until the log has so many lines with this text, and return them."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            alive = self.process.poll() is None
            lines = [line for line in self.log.read_text("utf-8").splitlines() if containing in line]
            if len(lines) >= count:
                return lines
            if not alive:
                break
            time.sleep(0.1)
        raise AssertionError(self.log.read_text("utf-8"))


UPLOAD: Any = {
    "body": b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nkept\r\n--x--\r\n',
    "Content-Type": "multipart/form-data; boundary=x",
}
"""What a browser sends with a file."""


def ask(server: Server, path: str, body: bytes = b"", length: int | None = None, **headers: str) -> tuple[int, bytes]:
    """The status and the answer to a request that says that its body has another length, if need be."""
    told = {"Content-Type": "application/json", "Content-Length": str(length or len(body))} | headers
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
    try:
        connection.request("POST", path, body, told)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def kept(folder: Path) -> list[Path]:
    """Every file in a folder that Gradio has made for uploads."""
    return [file for file in folder.rglob("*") if file.is_file()]


@contextmanager
def running(script: str, ready: str, env: dict[str, str], log: Path) -> Iterator[Server]:
    """Run the script of a Space until the end of the block, as the Hub does, once it has said that it is ready."""
    port = _free_port()
    own = env | {"GRADIO_SERVER_PORT": str(port), "GRADIO_ANALYTICS_ENABLED": "False", "PYTHONUNBUFFERED": "1"}
    file = ROOT / "examples" / script
    with log.open("w") as stream:
        process = subprocess.Popen([gradio(), file.name], cwd=file.parent, env=own, stdout=stream, stderr=stream)
        try:
            server = Server(f"http://127.0.0.1:{port}", log, process)
            server.lines(1, ready)
            yield server
        finally:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
