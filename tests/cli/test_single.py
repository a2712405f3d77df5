"""What is printed of one model by itself, of the registry, and of a tree."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from lxml import etree

from hf_lineage.architecture.registry import factorizations
from hf_lineage.checking.inspect import Inspection, Pairing
from hf_lineage.cli import single
from hf_lineage.cli.single import FORMATS, html, inspection_json, inspection_text, registry_text
from hf_lineage.errors import RegistryError
from hf_lineage.index.tree import Tree
from tests import hostile
from tests.pages import HOSTILE
from tests.report.conftest import checker, window
from tests.report.families import tree
from tests.whole import WAYS, assert_names_are_text, assert_whole

__all__ = ["checker", "window"]

SCORES, SIGNS = np.array([[0.9, 0.1, 0.0], [0.1, 0.6, 0.2], [0.0, 0.2, 0.3]]), np.array([1.0, -1.0, 0.0])
PAIRED = Pairing(scores=SCORES, signs=SIGNS, alike=np.ones((3, 3), dtype=bool), layers=(0, 1, 4))
INSPECTION = Inspection(
    model="org/model", commit="a" * 40, architecture="LlamaForCausalLM", factorization="llama",
    layers=5, width=32, heads=4, pairings={"mlp": PAIRED, "query_key": "keys are shared by all heads"},
    bytes_read=750_000, bytes_stored=3_000_000, unclaimed=(),
)  # fmt: skip


def test_what_was_read_and_each_path_and_layer_with_its_pairing_or_a_reason():
    text = inspection_text(INSPECTION)
    assert " ".join(text.partition("Path")[0].split()) == (
        "org/model: LlamaForCausalLM, factorization llama, 5 layers, width 32, 4 heads; branches take 25% of 3.0 MB"
    )
    lines = text.splitlines()
    rows = [line.split() for line in lines]
    assert (["mlp", "100%", "1.00", "33%"] in rows, ["query_key", "-", "-", "-"] in rows) == (True, True)
    assert "query_key: keys are shared by all heads" in lines
    assert "mlp: trace concentration of the plain product, s = |tr M| / ‖M‖" in lines
    rows = [row for row in rows if row[:1] in (["0"], ["1"], ["4"])]
    assert [row[:2] for row in rows] == [["0", "0.90"], ["1", "0.60"], ["4", "0.30"]]
    assert (rows[0][2], rows[1][2]) == ("+", "-")
    assert rows[2][2] not in ("+", "-")
    assert [len(row[-1]) for row in rows] == sorted((len(row[-1]) for row in rows), reverse=True)
    found = json.loads(inspection_json(INSPECTION))
    assert found["pairings"]["query_key"] == {"reason": "keys are shared by all heads"}
    mlp = found["pairings"]["mlp"]
    assert mlp["scores"] == PAIRED.scores.tolist()
    assert (mlp["accuracy"], mlp["layers"], mlp["trace_signs"]) == (1.0, [0, 1, 4], [1.0, -1.0, 0.0])
    assert found.keys() == set(Inspection.__dataclass_fields__)
    for name in hostile.NAMES:
        odd = replace(INSPECTION, model=name, architecture=name, unclaimed=(name,), pairings={"mlp": name})
        assert hostile.traces(inspection_text(odd), hostile.LINES[:-1]) == []


def test_the_registry_is_listed_whole_and_a_class_as_its_file_without_defaults():
    text = registry_text(None)
    assert max(map(len, text.splitlines())) <= 80
    words = [tuple(re.findall(r"[^\s:,]+", line)) for line in text.replace("\n  ", " ").splitlines()]
    assert words == [(chosen.name, *chosen.classes) for chosen in factorizations()]
    text = registry_text("LlamaForCausalLM")
    assert text.startswith("llama\n")
    assert "down: mlp.down_proj" in text
    assert not {"null", "[]", "{}"} & set(text.split())
    for show in (registry_text, single.registry_json):
        with pytest.raises(RegistryError, match=r"^NoSuchModel is not in the registry; registry/README\.md explains h"):
            show("NoSuchModel")


def test_graphviz_and_mermaid_get_every_edge_and_the_picture_is_told_in_words():
    shown = single.dot(tree('org/"; evil [x\\', "org/child"))
    assert shown.startswith("digraph lineage {\n")
    assert shown.count("->") == 6
    assert r'"org/\"; evil [x\\" -> "org/merge" [label="verified", color="#12642c"];' in shown
    assert '"unknown common ancestor" -> "org/child" [label="measured only", color="#404a57", dir="none"];' in shown
    lines = single.mermaid(tree('org/"]; click x', "org/child")).splitlines()
    assert lines[0] == "flowchart LR"
    assert '  n2["org/#34;#93;#59; click x"]' in lines
    assert ('  n2 -->|"verified"| n4' in lines, '  n1 ---|"measured only"| n2' in lines) == (True, True)
    assert '  n2 -.->|"contradicted"| n0' in lines
    root = etree.fromstring(single.svg(tree()))
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


def test_every_model_stands_below_the_one_it_comes_from_and_programs_get_every_edge():
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
    assert max(map(len, FORMATS["text"](tree(HOSTILE, "m" * 300)).splitlines())) <= 80
    document = json.loads(FORMATS["json"](tree()))
    marks = ["measured", "measured", "verified", "verified", "contradicted", "declared"]
    assert [edge["mark"] for edge in document["edges"]] == marks
    assert document["families"][1][0] == "unknown common ancestor"
    assert (document["pairs"], document["alpha"]) == (6, 0.001)


@pytest.mark.parametrize("form", FORMATS)
def test_a_hostile_name_stays_in_its_place_and_a_tree_of_nothing_can_be_written(form):
    shown = FORMATS[form](tree(HOSTILE, HOSTILE[::-1]))
    assert not {"\x1b", "\u202e"} & {*shown}
    assert form in ("text", "json", "dot") or "<script" not in shown
    assert FORMATS[form](Tree("mlp", (), (), (), 0, 0.001))
