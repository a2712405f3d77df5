"""axe-core, the checker of accessibility, as a package of Python brings it; a browser runs it on a page."""

import hashlib
from importlib.resources import files
from typing import Any

from tests.browser import Browser

SHA256 = "697ea6c7edff0fe289b7bbecf1ff7b9015249bc834b409a348cd060df80aeba0"
"""Of the file that is run in the browser, which is axe-core 4.4.3: what else the index may hold is never run."""
RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ['violations']}).then(
    found => done(found.violations.map(rule => [rule.id, rule.help, rule.nodes.map(node => node.html.slice(0, 200))])),
    error => done([['axe-core failed', String(error), []]]));
"""


def source() -> str:
    """Return the script."""
    content = files("axe_core_python").joinpath("axe.min.js").read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256
    return content.decode()


def violations(window: Browser, script: str) -> list[Any]:
    """Return every rule that the page in a browser breaks: its name, what it asks for, and where."""
    window.run(f"{script}; window.axe = window.axe || axe;")
    return window.driver.execute_async_script(RUN)
