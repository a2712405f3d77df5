"""A tree as text fits 80 columns and says what each edge rests on; JSON holds the same."""

import json

import pytest

from hf_lineage.index.tree.tree import Tree
from hf_lineage.report.tree.formats import FORMATS
from tests.pages import HOSTILE
from tests.report.trees import tree


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
