"""Every node is in one row, however often it is named; what was said besides stands with its model.

Lines of a picture: one for each edge, straight where the way is free, else around the nodes in between.
"""

from lxml import etree

from hf_lineage.index.tree.tree import Edge, Mark
from hf_lineage.report.tree.rows import LETTERS, Node, besides, picture, rows
from tests.report.trees import tree


def test_every_model_has_one_row_and_families_come_first():
    names = [row.name for row in rows(tree())]
    assert names == ["unknown common ancestor", "org/base", "org/merge", "org/child", "org/liar"]
    assert [row.depth for row in rows(tree())] == [0, 1, 2, 1, 0]


def test_what_no_weights_bear_out_is_said_of_the_model_that_declares_it():
    *_, liar = rows(tree())
    assert [besides(edge) for edge in liar.further] == [
        "declares org/base: contradicted",
        "declares gone/base: declared only",
    ]


SVG = "{http://www.w3.org/2000/svg}"


def drawn(*nodes):
    return etree.fromstring(picture(nodes, "a title", "what the lines show"))


def verified(parent, child, mark=Mark.VERIFIED):
    return Edge(parent, child, mark)


def test_a_line_is_solid_where_the_weights_bear_it_out_and_dashed_where_they_do_not():
    nodes = [Node("a", 0)]
    nodes += [Node(mark.name, 1, edges=(verified("a", mark.name, mark),)) for mark in Mark]
    dashed = {
        line.get("class") for line in drawn(*nodes).iter(f"{SVG}path") if line.get("stroke-dasharray") is not None
    }
    assert len([*drawn(*nodes).iter(f"{SVG}path")]) == len(Mark)
    assert dashed == {"edge open", "edge bad"}


def test_a_line_passes_the_nodes_between_on_their_left():
    nodes = (Node("a", 1), Node("b", 1), Node("c", 2, edges=(verified("b", "c"), verified("a", "c"))))
    around, straight = (line.get("d") for line in drawn(*nodes).iter(f"{SVG}path"))
    assert straight == "M30 64V96Q30 106 40 106H46"
    assert around.startswith("M30 22Q23 22 23 32V96")


def test_a_line_that_leads_up_is_drawn_as_well():
    nodes = (Node("c", 1, edges=(verified("a", "c"),)), Node("a", 0))
    (line,) = drawn(*nodes).iter(f"{SVG}path")
    assert line.get("d") == "M14 64V32Q14 22 24 22H30"


def test_a_long_name_is_cut_and_whole_in_its_title():
    name = "org/" + "long-" * 20
    root = drawn(Node(name, 0, "verified", "good"), Node("org/b", 1, strong=True))
    (title, *_), shown = root.findall(f"{SVG}g/{SVG}title"), root.find(f"{SVG}g/{SVG}text").text
    assert title.text == f"{name}: verified"
    assert (len(shown), shown[-1]) == (LETTERS, "…")


def test_a_reader_who_sees_no_picture_is_told_its_name_and_its_lines():
    root = drawn(Node("a", 0))
    assert root.get("role") == "img"
    told = {element.get("id"): element.text for element in root if element.get("id")}
    assert told[root.get("aria-labelledby")] == "a title"
    assert told[root.get("aria-describedby")] == "what the lines show"
