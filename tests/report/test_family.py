"""The tree at the head of a page: what a report knows and no more, each line marked for what it rests on."""

from dataclasses import replace

from lxml import etree

from hf_lineage.checking.result import NAMED
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.index.tree import Edge, Mark
from hf_lineage.report import FORMATS
from hf_lineage.report.family import FIRST, LETTERS, MARKS, MOST, Node, besides, draw_family, figure, picture, rows
from tests.pages import report
from tests.report import families
from tests.report.families import tree
from tests.whole import assert_names_are_text


def lines(made):
    return [
        (edge.parent, edge.child, edge.mark.value, edge.way) for node in draw_family(made)[0] for edge in node.edges
    ]


def test_every_parent_of_a_merge_is_marked_for_what_weights_say_with_its_share():
    assert lines(families.merge()) == [
        ("org/one", "org/merge", "verified", "70% of the merge"),
        ("org/two", "org/merge", "verified", "30% of the merge"),
        ("free/three", "org/merge", "contradicted", ""),
        ("gone/four", "org/merge", "not judged", ""),
    ]
    *bases, model = draw_family(families.merge())[0]
    assert [node.words for node in bases] == [
        "verified, 70% of the merge", "verified, 30% of the merge", "contradicted", "not judged"
    ]  # fmt: skip
    assert [node.tone for node in bases] == ["good", "good", "bad", "open"]
    assert (model.name, model.words, model.strong) == ("org/merge", "this model", True)
    named = families.related("org/one", None, sources=NAMED), families.unrelated("free/two", NAMED)
    undeclared = [mark for _, _, mark, _ in lines(report(*named, families.unread("gone/three")))]
    assert undeclared == ["verified", "no trace", "not judged"], "what nobody declares cannot be contradicted"


def test_a_relative_from_an_index_and_each_adapter_have_a_line_of_their_own():
    assert lines(families.nearer())[1] == ("org/between", "org/model", "measured only", "nearer than org/base")
    told = "org/model from org/between: measured only, nearer than org/base, direction not known."
    assert told in figure(families.nearer())
    assert lines(families.adapters()) == [
        ("org/base", "org/adapters: style", "verified", "97% inherited"),
        ("org/base", "org/adapters: other-style", "contradicted", ""),
    ]
    words = [node.words for node in draw_family(families.adapters())[0]]
    assert words == ["", "verified, 97% inherited", "contradicted"]


def test_of_many_bases_those_that_weights_contradict_are_drawn_others_counted():
    bases = (families.related(f"org/base-{number}") for number in range(11))
    crowd = report(*bases, families.unrelated("free/liar"), model="org/merge")
    drawn, left_out = draw_family(crowd)
    assert [node.name for node in drawn][-2:] == ["free/liar", "org/merge"]
    assert (len(drawn), left_out) == (MOST + 1, 4)
    assert "4 more are not drawn; the list below has all of them." in figure(crowd)


def test_there_is_no_picture_of_one_claim_nor_a_line_from_a_model_to_itself():
    one, other = families.related("org/base"), families.related("Org/Base")
    for alone in (one, families.unrelated("org/base"), families.unread("org/base")):
        assert figure(report(alone)) == ""
    drawn = lines(report(families.unread("ORG/model"), one))
    assert drawn == [("org/base", "org/model", "verified", "97% inherited")]
    assert len(draw_family(report(one, other))[0]) == 2, "names that differ in case alone are one model"
    rows = (one, families.unread("org/base"), families.related("org/other"))
    for several in (rows, rows[::-1]):  # what is verified does not stand for what else is said of the same base
        assert ("org/base", "org/model", "not judged", "") in lines(report(*several))


def test_rows_stand_right_of_their_parents_and_name_no_folder_nor_verify_what_is_not():
    for made in (families.merge, families.nearer, families.adapters):
        nodes, _ = draw_family(made())
        places = {node.name: (node.depth, at) for at, node in enumerate(nodes)}
        for edge in (edge for node in nodes for edge in node.edges):
            assert all(parent < child for parent, child in zip(places[edge.parent], places[edge.child], strict=True))
    rows = (families.related(f"/srv/secret/{name}", sources=NAMED) for name in ("one", "two"))
    page = FORMATS["html"](report(*rows, model="/home/me/model"), False)
    assert "Family tree of ./model" in page
    assert not any(place in page for place in ("/srv/secret", "/home/me"))
    marks = {code: MARKS.get(code, Mark.NOT_JUDGED) for code in Code}
    assert {code for code in Code if marks[code] is Mark.VERIFIED} == {code for code in Code if Verdict(code).verified}
    assert {*marks.values()} <= {*FIRST}


def test_names_in_the_picture_are_text(window, tmp_path):
    def made(name):
        return FORMATS["html"](replace(families.merge(f"a{name}"), relatives=families.nearer(name).relatives), False)

    assert_names_are_text(window, tmp_path, made, 400)
    assert window.run("return document.querySelectorAll('svg.tree circle').length") == 6


def test_every_model_has_one_row_and_what_no_weights_bear_out_is_said_of_it():
    *_, (*_, further) = drawn = list(rows(tree()))
    assert [name for name, *_ in drawn] == ["unknown common ancestor", "org/base", "org/merge", "org/child", "org/liar"]
    assert [depth for _, depth, *_ in drawn] == [0, 1, 2, 1, 0]
    assert [besides(edge) for edge in further] == [
        "declares org/base: contradicted",
        "declares gone/base: declared only",
    ]


def test_a_line_without_weights_behind_it_is_dashed_and_a_long_name_cut():
    svg, name = "{http://www.w3.org/2000/svg}", "org/" + "long-" * 20
    nodes = [Node(name, 0, "verified", "good"), Node("a", 0)]
    nodes += [Node(mark.name, 1, edges=(Edge("a", mark.name, mark),)) for mark in Mark]
    root = etree.fromstring(picture(nodes, "a title", "what the lines show"))
    paths = list(root.iter(f"{svg}path"))
    dashed = {line.get("class") for line in paths if line.get("stroke-dasharray") is not None}
    assert (len(paths), dashed) == (len(Mark), {"edge open", "edge bad"})
    (title, *_), shown = root.findall(f"{svg}g/{svg}title"), root.find(f"{svg}g/{svg}text").text
    assert (title.text, len(shown), shown[-1]) == (f"{name}: verified", LETTERS, "…")
