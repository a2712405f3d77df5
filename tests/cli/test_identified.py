"""What an index knows of a model is told with the size of the index, and never as an accusation."""

import json
import shutil
from dataclasses import replace

import pytest

from hf_lineage import Options, extract
from hf_lineage.cli import identified as identification
from hf_lineage.cli.identified import BASES_FORMATS
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.index.identify import AdapterBases, Group, TestedGroup, identify
from hf_lineage.index.nearest import weigh_relatives
from hf_lineage.index.shard import Entry
from hf_lineage.lora.gradient_alignment import judge_trace
from hf_lineage.source.locate import locate_model
from hf_lineage.source.model import open_model
from tests.blends import A, blended
from tests.example_evidence import trace
from tests.index.conftest import catalogue, signatures
from tests.models import EXAMPLES
from tests.pages import HOSTILE

__all__ = ["catalogue", "signatures"]


@pytest.fixture(scope="module")
def merge(signatures, catalogue):
    return identify(signatures["fern/llama-merge-a-b"], "mlp", catalogue, Criteria(permutations=199))


def told(found):
    return " ".join(identification.text([found]).split())


def test_the_nearest_is_first_and_no_name_writes_to_the_terminal(merge):
    lines = identification.text([merge]).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "fern/llama-merge-a-b"
    assert lines[4].split()[0] in ("fern/llama-finetune-a", "fern/llama-finetune-b")
    assert "reverse. Weights do not tell which came first" in told(merge)
    first = merge.related[0]
    sibling, base = replace(first, along=0.2, distance=0.203), replace(merge.ancestor, distance=0.221)
    shown = told(replace(merge, related=(base, sibling), ancestor=base))
    assert f"Nearest known relative: {sibling.entry.model} (distance 0.203)" in shown
    hostile = replace(first, entry=replace(first.entry, model="org/\x1b[31mred\n"))
    assert "\x1b" not in identification.text([replace(merge, related=(hostile,), ancestor=hostile)])
    assert "\x1b" not in identification.list_text([hostile.entry])


def test_nothing_found_is_told_with_what_was_searched_and_what_parents_gave(merge):
    nobody = {"related": (), "ancestor": None}
    assert told(replace(merge, **nobody, others=())).endswith(
        "No relative was found: 7 of 7 models in the index are comparable (path mlp), no key is similar. A model "
        "that is not in the index cannot be found."
    )
    narrow = replace(merge, width=96, otherwise=3)
    left = "Only models with a stream of the same width, 96, and a signature by the same recipe were searched: 3 others"
    assert [left in told(one) for one in (narrow, replace(narrow, **nobody))] == [True, True]
    assert "Only models with" not in told(merge)
    options = Options(local_hub=EXAMPLES)
    whole = weigh_relatives(merge, open_model(locate_model("fern/llama-merge-a-b", options), options), options)
    assert "By all weights 50% (± 0.1) of fern/llama-finetune-" in told(whole), "as a check tells what each parent gave"
    (path,) = json.loads(identification.json([whole]))["paths"]
    assert [one["shows"] for one in path["blend"]["parents"]] == ["none", "blend", "blend"]
    assert json.loads(identification.json([merge]))["paths"][0]["blend"] is None


def test_of_a_graft_the_model_whose_layers_it_has_is_named_and_no_blend(signatures, catalogue, tmp_path):
    """Its donor is a child of a model of the index that is as much alike in the other layers: not at all."""
    shutil.copytree(EXAMPLES, tmp_path / "hub")
    blended(tmp_path / "hub/wren/graft", {(host := "otter/llama-independent"): 0.0, A: 1.0}, part="layers.[14].")
    options = Options(local_hub=tmp_path / "hub", paths=("mlp",))
    found = identify(extract("wren/graft", options), "mlp", catalogue, Criteria(permutations=199))
    shown = told(weigh_relatives(found, open_model(locate_model("wren/graft", options), options), options))
    assert f"What its units write has counterparts: 67% in {host} and 33% in {A}, as where layers" in shown
    assert f"some matrices of the model are those of {host}, and the others are not" in shown
    assert not any(false in shown for false in ("checkpoints of one training", "the blend", "it may come from there"))


def entry(name):
    return Entry(name, "c0ffee", "mlp", 96, 6, "robust")


def bases(name="org/base", observed=4.0):
    traced, gone = judge_trace(trace(observed), Criteria()), Verdict(Code.NO_BASE, f"{name} is gone")
    tested = (
        TestedGroup(Group(entry(name), (entry("near/0"), entry("near/1"))), traced),
        TestedGroup(Group(entry(f"x/{name}"), ()), gone),
    )
    return AdapterBases(name, None, "", f"{name}: a LoRA adapter", (96,), tested, tests=2, fitting=9, untested=3, of=20)


def test_nobody_is_told_to_have_trained_on_a_base_of_a_weak_trace_or_without_a_test():
    weak, untestable = (
        " ".join(BASES_FORMATS["text"]([found], None).split())
        for found in (bases(observed=2.0), AdapterBases("org/x", None, "a/b", "it has no weights"))
    )
    why = "a trace of this base, but a weak one: the effect is 5.2 standard deviat"
    assert (f"org/base: the adapter shows {why}" in weak, "Trained on" in weak) == (True, False)
    assert untestable == "org/x (a/b) it has no weights No known model was tested"
    first, second = json.loads(BASES_FORMATS["json"]([bases()], None))["adapters"][0]["tested"]
    assert first["p_value_adjusted"] == 2 * 0.001
    assert (first["code"], second["p_value_adjusted"], second["code"]) == ("adapter", None, "no-base")
    assert [one["model"] for one in first["near"]] == ["near/0", "near/1"]


def test_who_was_not_tested_is_named_up_to_five_then_counted_and_stays_in_line():
    verdict = judge_trace(trace(4.0), Criteria())

    def told(near):
        tested = (TestedGroup(Group(entry("a"), tuple(map(entry, near))), verdict),)
        text = BASES_FORMATS["text"]([replace(bases(), tested=tested)], None)
        return " ".join(text.split())

    assert "not tested: a/b " in told(["a/b"])
    assert "does not say which one; near it by keys, and not tested: 1, 2, 3, 4, 5 and 2 more" in told("1234567")
    assert ("near it by keys" in told([]), told([HOSTILE]).isprintable()) == (False, True)
    _, *lines = BASES_FORMATS["text"]([bases(HOSTILE)], None).splitlines()
    assert all((len(line) <= 80 or "mmmm" in line) and line.isprintable() for line in lines)
