"""A tree as text fits 80 columns and says what each edge rests on; JSON holds the same.

Graphviz and Mermaid get every node and edge, and names that cannot be anything else.
The picture and the page of a tree: well-formed, nothing loaded, whole on a phone in a real browser.
"""

import json

import pytest
from lxml import etree

from hf_lineage.index.tree.tree import Tree
from hf_lineage.report.tree.formats import FORMATS, dot, html, mermaid, svg
from tests.pages import HOSTILE
from tests.report.trees import tree
from tests.whole import WAYS, assert_names_are_text, assert_whole


def test_graphviz_gets_every_edge():
    shown = dot(tree('org/"; evil [x\\', "org/child"))
    assert shown.startswith("digraph lineage {\n")
    assert shown.count("->") == 6
    assert r'"org/\"; evil [x\\" -> "org/merge" [label="verified", color="#12642c"];' in shown
    assert '"unknown common ancestor" -> "org/child" [label="measured only", color="#404a57", dir="none"];' in shown


def test_mermaid_gets_every_edge_between_numbered_nodes():
    lines = mermaid(tree('org/"]; click x', "org/child")).splitlines()
    assert lines[0] == "flowchart LR"
    assert '  n2["org/#34;#93;#59; click x"]' in lines
    assert '  n2 -->|"verified"| n4' in lines
    assert '  n1 ---|"measured only"| n2' in lines
    assert '  n2 -.->|"contradicted"| n0' in lines


def test_the_picture_is_told_in_words_as_well():
    root = etree.fromstring(svg(tree()))
    spoken = {etree.QName(element).localname: element.text for element in root[:2]}
    assert spoken["title"] == "Family tree of 4 models"
    assert "org/merge from org/base: verified; org/merge from org/child: verified" in spoken["desc"]


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


def test_every_model_stands_below_the_one_it_comes_from():
    lines = FORMATS["text"](tree()).splitlines()
    assert lines[:9] == [
        "unknown common ancestor",
        "  org/base",
        "      measured only, direction not known, length 0.0100",
        "    org/merge",
        "        verified, declared: merge, length 0.0100",
        "        also from org/child: verified, declared: merge, length 0.0100",
        "  org/child",
        "      measured only, direction not known, seen: pruned (50% of the weights set",
        "        to zero), length 0.0200",
    ]
    assert "    declares gone/base: declared only" in lines
    assert "4 models, 6 pairs, path mlp: two are of one family at p <= 0.001 of their own" in lines


def test_no_line_is_wider_than_80_columns_whatever_a_name_is():
    assert max(map(len, FORMATS["text"](tree(HOSTILE, "m" * 300)).splitlines())) <= 80


def test_programs_get_every_edge():
    document = json.loads(FORMATS["json"](tree()))
    assert [edge["mark"] for edge in document["edges"]] == [
        *("measured", "measured", "verified", "verified", "contradicted", "declared"),
    ]
    assert document["families"][1][0] == "unknown common ancestor"
    assert (document["pairs"], document["alpha"]) == (6, 0.001)


@pytest.mark.parametrize("form", FORMATS)
def test_a_hostile_name_does_not_leave_its_place(form):
    shown = FORMATS[form](tree(HOSTILE, HOSTILE[::-1]))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert form in ("text", "json", "dot") or "<script" not in shown


@pytest.mark.parametrize("form", FORMATS)
def test_a_tree_of_nothing_can_be_written(form):
    assert FORMATS[form](Tree("mlp", (), (), (), 0, 0.001))
