"""What an index knows of a model is told with the size of the index, and never as an accusation."""

import json
import shutil
from dataclasses import replace

import pytest

from hf_lineage import Options, extract
from hf_lineage.checking.source.model import open_model
from hf_lineage.checking.source.naming import located
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.index.search.identify import identify
from hf_lineage.index.search.parents import weighed
from hf_lineage.report.single import identified as identification
from tests.blends import A, half_and_half
from tests.index.conftest import catalogue, signatures
from tests.models import EXAMPLES

__all__ = ["catalogue", "signatures"]


@pytest.fixture(scope="module")
def merge(signatures, catalogue):
    return identify(signatures["fern/llama-merge-a-b"], "mlp", catalogue, Criteria(permutations=199))


def test_a_table_of_eighty_columns_names_the_nearest_first(merge):
    lines = identification.text([merge]).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "fern/llama-merge-a-b"
    assert lines[4].split()[0] in ("fern/llama-finetune-a", "fern/llama-finetune-b")
    assert "reverse. Weights do not tell which came first" in " ".join(" ".join(lines).split())


def test_where_nobody_lies_between_two_models_it_says_so(merge):
    alone = replace(merge, related=(merge.ancestor,))
    shown = " ".join(identification.text([alone]).split())
    assert f"Nearest known relative: acme/llama-base (distance {merge.ancestor.distance:.3f})" in shown
    assert "No other known model lies between it and acme/llama-base" in shown


def test_the_nearest_is_the_one_at_the_least_distance_whatever_comes_first(merge):
    sibling = replace(merge.related[0], along=0.2, distance=0.203)
    base = replace(merge.ancestor, distance=0.221)
    shown = " ".join(identification.text([replace(merge, related=(base, sibling), ancestor=base)]).split())
    assert f"Nearest known relative: {sibling.entry.model} (distance 0.203)" in shown


def test_nothing_found_is_told_with_the_size_of_the_index(merge):
    nobody = replace(merge, related=(), ancestor=None, others=())
    shown = " ".join(identification.text([nobody]).split())
    assert shown.endswith(
        "No relative was found: 7 of 7 models in the index are comparable (path mlp), no key is similar. A model "
        "that is not in the index cannot be found."
    )


def test_a_name_from_an_index_cannot_write_to_the_terminal(merge):
    first = merge.related[0]
    hostile = replace(first, entry=replace(first.entry, model="org/\x1b[31mred\n"))
    for shown in (
        identification.text([replace(merge, related=(hostile,), ancestor=hostile)]),
        identification.list_text([hostile.entry]),
    ):
        assert "\x1b" not in shown


def test_what_was_not_searched_is_counted(merge):
    narrow = replace(merge, width=96, otherwise=3)
    shown = " ".join(identification.text([narrow]).split())
    told = "Only models with a stream of the same width, 96, and a signature by the same recipe were searched: 3 others"
    assert told in shown
    assert "Only models with" not in identification.text([merge])
    assert told in " ".join(identification.text([replace(narrow, related=(), ancestor=None)]).split())


def test_what_each_parent_gave_is_told_as_a_check_tells_it(merge):
    options = Options(local_hub=EXAMPLES)
    model = open_model(located("fern/llama-merge-a-b", options), options)
    whole = weighed(merge, model, options)
    shown = " ".join(identification.text([whole]).split())
    assert "By all weights 50% (± 0.1) of fern/llama-finetune-" in shown
    (path,) = json.loads(identification.json([whole]))["paths"]
    assert [one["shows"] for one in path["blend"]["parents"]] == ["none", "blend", "blend"]
    assert json.loads(identification.json([merge]))["paths"][0]["blend"] is None


def test_of_a_graft_the_model_whose_layers_it_has_is_named_and_no_blend(signatures, catalogue, tmp_path):
    """Its donor is a child of a model of the index that is as much alike in the other layers: not at all."""
    shutil.copytree(EXAMPLES, tmp_path / "hub")
    half_and_half(tmp_path / "hub/wren/graft", {(host := "otter/llama-independent"): 0.0, A: 1.0}, "layers.[14].")
    options = Options(local_hub=tmp_path / "hub", paths=("mlp",))
    found = identify(extract("wren/graft", options), "mlp", catalogue, Criteria(permutations=199))
    model = open_model(located("wren/graft", options), options)
    shown = " ".join(identification.text([weighed(found, model, options)]).split())
    assert f"What its units write has counterparts: 67% in {host} and 33% in {A}, as where layers" in shown
    assert f"some matrices of the model are those of {host}, and the others are not" in shown
    assert not any(false in shown for false in ("checkpoints of one training", "the blend", "it may come from there"))
