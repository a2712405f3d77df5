"""The picture and the page of a tree: well-formed, nothing loaded, whole on a phone in a real browser."""

import os

import pytest
from lxml import etree

from hf_lineage.report.tree_page import html, svg
from tests import screenshots
from tests.browser import MISSING, browser, driver_path
from tests.pages import BENIGN, HOSTILE
from tests.report.trees import tree


@pytest.fixture(scope="module")
def window():
    if driver_path() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(MISSING)
    with browser() as opened:
        yield opened


def test_the_picture_is_told_in_words_as_well():
    root = etree.fromstring(svg(tree()))
    spoken = {etree.QName(element).localname: element.text for element in root[:2]}
    assert spoken["title"] == "Family tree of 4 models"
    assert "org/merge from org/base: verified; org/merge from org/child: verified" in spoken["desc"]


def test_the_picture_in_the_pages_is_that_of_the_example_models():
    written = (screenshots.ROOT / "docs" / "tree.svg").read_text(encoding="utf-8")
    assert written == svg(screenshots.family_tree())


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1280, "dark")])
def test_the_page_is_whole_and_asks_for_nothing(window, tmp_path, width, scheme):
    elements = []
    for name in (HOSTILE, BENIGN):
        file = tmp_path / "tree.html"
        file.write_text(html(tree(name, "org/child")), encoding="utf-8")
        window.open(file, width, scheme)
        assert window.run("return document.documentElement.scrollWidth") == width
        assert window.run("return document.querySelectorAll('svg.tree circle').length") == 5
        assert window.run("return document.querySelectorAll('tbody tr').length") == 6
        assert window.console() == []
        assert [url for url in window.requests() if not url.startswith("data:")] == [file.as_uri()]
        assert window.run("return [document.scripts.length, window.hacked]") == [0, None]
        elements.append(window.run("return [...document.querySelectorAll('*')].map(e => e.localName)"))
    assert elements[0] == elements[1]
