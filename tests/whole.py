"""What every page has to be in a real browser: whole, readable for everybody, silent, and deaf to hostile names."""

import hashlib
from importlib.resources import files
from typing import Any

from tests.browser import Browser
from tests.long import first_of
from tests.pages import BENIGN, HOSTILE

WAYS = first_of([(400, "light"), (1280, "dark"), (400, "dark"), (1280, "light")], count=2)
UNFOLD = "document.querySelectorAll('details').forEach(e => e.open = true)"
SCROLLED = """
return [...document.querySelectorAll('body *')].filter(e => e.scrollWidth > e.clientWidth + 1 && !e.matches('.hidden')
    && getComputedStyle(e).overflowX !== 'visible').map(e => e.outerHTML.slice(0, 200));
"""
"""What is wider than its place, so that it has to be scrolled sideways."""
OUTSIDE = """
return [...document.querySelectorAll('figure svg')].flatMap(s => [...s.querySelectorAll('text')].filter(
    t => t.getBoundingClientRect().right > s.getBoundingClientRect().right + 1).map(t => t.textContent));
"""
"""Every text that leaves its picture."""
SHA256 = "697ea6c7edff0fe289b7bbecf1ff7b9015249bc834b409a348cd060df80aeba0"
"""Of the file that is run in the browser, which is axe-core 4.4.3: what else the index may hold is never run."""
RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ['violations']}).then(
    found => done(found.violations.map(rule => [rule.id, rule.help, rule.nodes.map(node => node.html.slice(0, 200))])),
    error => done([['axe-core failed', String(error), []]]));
"""


def axe() -> str:
    content = files("axe_core_python").joinpath("axe.min.js").read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256
    return content.decode()


def violations(window: Browser, script: str) -> list[Any]:
    window.run(f"{script}; window.axe = window.axe || axe;")
    return window.driver.execute_async_script(RUN)


def assert_whole(window, file, checker, width, scheme):
    """No part of a page has to be scrolled sideways or is cut off, and axe-core finds nothing."""
    window.open(file, width, scheme)
    window.run(UNFOLD)
    assert window.run("return [innerWidth, document.documentElement.scrollWidth]") == [width, width]
    assert window.run(SCROLLED) == []
    assert window.run(OUTSIDE) == []
    assert violations(window, checker) == []


def assert_silent(window, file):
    """Nothing but the page itself is asked for, nothing runs, and the browser complains of nothing."""
    assert window.console() == []
    assert [url for url in window.requests() if not url.startswith("data:")] == [file.as_uri()]
    assert window.run("return [document.scripts.length, window.hacked]") == [0, None]


def assert_names_are_text(window, folder, made, width, scheme="light"):
    """A page made for a hostile name has the elements of one made for a harmless one, and is as silent."""
    elements = []
    for number, name in enumerate((HOSTILE, BENIGN)):
        file = folder / f"{number}.html"
        file.write_text(made(name), encoding="utf-8")
        window.open(file, width, scheme)
        assert window.run("return document.documentElement.scrollWidth") == width
        assert_silent(window, file)
        elements.append(window.run("return [...document.querySelectorAll('*')].map(e => "
                                   "[e.localName, e.getAttribute('class'), e.attributes.length])"))  # fmt: skip
    assert elements[0] == elements[1]
