"""The picture and the page of a tree: well-formed, nothing loaded, whole on a phone in a real browser."""

import pytest
from lxml import etree

from hf_lineage.report.tree.page import html, svg
from tests import screenshots
from tests.report.trees import tree
from tests.whole import WAYS, assert_names_are_text, assert_whole


def test_the_picture_is_told_in_words_as_well():
    root = etree.fromstring(svg(tree()))
    spoken = {etree.QName(element).localname: element.text for element in root[:2]}
    assert spoken["title"] == "Family tree of 4 models"
    assert "org/merge from org/base: verified; org/merge from org/child: verified" in spoken["desc"]


@pytest.mark.long
def test_the_picture_in_the_pages_is_that_of_the_example_models():
    written = (screenshots.ROOT / "docs" / "tree.svg").read_text(encoding="utf-8")
    assert written == svg(screenshots.family_tree())


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1280, "dark")])
def test_the_page_asks_for_nothing_and_names_are_text(window, tmp_path, width, scheme):
    assert_names_are_text(window, tmp_path, lambda name: html(tree(name, "org/child")), width, scheme)
    assert window.run("return document.querySelectorAll('svg.tree circle').length") == 5
    assert window.run("return document.querySelectorAll('tbody tr').length") == 6


@pytest.mark.parametrize(("width", "scheme"), WAYS)
def test_the_page_is_whole_and_axe_finds_nothing(window, tmp_path, checker, width, scheme):
    file = tmp_path / "tree.html"
    file.write_text(html(tree("Meta-Llama/Llama-3.2-90B-Vision-Instruct-abliterated-GPTQ-Int4")), encoding="utf-8")
    assert_whole(window, file, checker, width, scheme)
