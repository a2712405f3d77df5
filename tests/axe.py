"""axe-core, the checker of accessibility, as its authors publish it on npm; a browser runs it on a page."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest
from filelock import FileLock

from tests.browser import Browser

VERSION = "4.14.1"
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
"""Of the file that is run in the browser: what else the index may hold is never run."""
RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ['violations']}).then(
    found => done(found.violations.map(rule => [rule.id, rule.help, rule.nodes.map(node => node.html.slice(0, 200))])),
    error => done([['axe-core failed', String(error), []]]));
"""


def source(folder: Path) -> str:
    """Return the script, downloaded into a folder that is kept; skip where it cannot be had, and fail so in CI."""
    file = folder / f"axe-{VERSION}.min.js"
    with FileLock(folder / "lock"):
        if not file.exists():
            _download(folder, file)
    content = file.read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256
    return content.decode()


def _download(folder: Path, file: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        _missing("there is no npm, which brings axe-core")
    command = [npm, "install", "--prefix", str(folder), "--no-save", "--ignore-scripts", "--no-audit", "--no-fund",
               f"axe-core@{VERSION}"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        _missing(f"npm could not install axe-core: {done.stderr.strip()[-500:]}")
    shutil.copy(folder / "node_modules" / "axe-core" / "axe.min.js", file)


def _missing(why: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


def violations(window: Browser, script: str) -> list[Any]:
    """Return every rule that the page in a browser breaks: its name, what it asks for, and where."""
    window.run(f"{script}; window.axe = window.axe || axe;")
    return window.driver.execute_async_script(RUN)
