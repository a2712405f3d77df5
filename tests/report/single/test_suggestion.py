"""How a model fits the registry, in sentences: what fits first, the draft last, and nothing longer than it may be."""

import json as standard_json
from dataclasses import replace

import pytest

from hf_lineage.architecture.drafting.draft import Draft
from hf_lineage.architecture.drafting.suggestion import Fit, Miss, Suggestion
from hf_lineage.report.single.suggestion import FITTING, LISTED, NO_PROOF, SHOWN, json, text
from tests import hostile

NEAR = Miss("mixtral", names=10, missing=("mlp.gate", "mlp.experts"), layers=None, problem=None)
SUGGESTION = Suggestion(
    model="org/model",
    classes=("TheirForCausalLM",),
    remote_code=False,
    listed=(),
    layers=("model.layers.{layer}",),
    fits=(Fit("llama", 4, 32, ()), Fit("gpt2", 4, 32, ("a.weight", "b.weight"))),
    misses=(NEAR,),
    draft=Draft("# A draft\nclasses: [TheirForCausalLM]\n", None),
)


def sentences(**changes):
    return " ".join(text(replace(SUGGESTION, **changes)).split())


def test_the_parts_stand_in_their_order_and_the_draft_is_the_end():
    found = text(SUGGESTION)
    parts = ("org/model: ", "Names and shapes fit:", "- llama.yaml", "- gpt2.yaml", "Near misses:", "- mixtral.yaml")
    places = [found.index(part) for part in (*parts, "Names and shapes do not show", "The draft below")]
    assert places == sorted(places)
    assert found.endswith("\n# A draft\nclasses: [TheirForCausalLM]\n")
    assert NO_PROOF in sentences()


@pytest.mark.parametrize(
    ("changes", "standing"),
    [
        ({}, "org/model: TheirForCausalLM is in no file of the registry."),
        ({"remote_code": True}, "it is remote code (auto_map), which is never run, so it cannot be proved."),
        ({"classes": ()}, "org/model: config.json names no class under `architectures`."),
        ({"listed": ("llama",)}, "is listed already, in llama.yaml, and llama.yaml fits; there is nothing to add."),
        ({"listed": ("bert", "vit")}, "is listed already, in bert.yaml, vit.yaml, but this model does not fit."),
    ],
)
def test_the_first_sentence_says_where_its_class_stands(changes, standing):
    assert standing in sentences(**changes)


def test_what_a_fit_leaves_unread_is_named():
    assert "- llama.yaml: reads everything" in text(SUGGESTION)
    assert "- gpt2.yaml: does not read a.weight, b.weight" in text(SUGGESTION)


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({}, "8 of 10 names; there is no mlp.gate, mlp.experts"),
        ({"missing": (), "problem": "up has another shape"}, "10 of 10 names; up has another shape"),
        ({"missing": (), "layers": "blocks.{layer}"}, "10 of 10 names; the layers are blocks.{layer}"),
        ({"layers": "b.{layer}", "problem": "odd"}, "the layers are b.{layer}; there is no mlp.gate, mlp.experts; odd"),
    ],
)
def test_a_near_miss_says_what_would_have_to_change(changes, finding):
    found = sentences(misses=(replace(NEAR, **changes),))
    assert finding in found.partition("- mixtral.yaml: ")[2]


def test_where_there_is_nothing_a_list_says_so():
    found = text(replace(SUGGESTION, fits=(), misses=()))
    assert found.count("- none\n") == 2


def test_a_model_without_layers_gets_no_draft_and_the_reason():
    found = sentences(layers=(), draft=None, fits=(), misses=())
    assert found.endswith("No draft: no tensors are numbered like layers, from 0 and without a gap.")


def test_a_draft_that_does_not_bind_says_why():
    assert "loads but does not fit yet: no norm" in sentences(draft=Draft("classes: []\n", "no norm"))


def test_of_very_many_names_the_first_are_shown_and_the_others_counted():
    names = tuple(f"t{number}" for number in range(1000))
    fits = tuple(Fit(f"file{number}", 4, 32, names) for number in range(100))
    found = replace(SUGGESTION, fits=fits)
    assert text(found).count("- file") == FITTING
    assert f"- and {100 - FITTING} more" in text(found)
    assert f"t{SHOWN - 1} and {1000 - SHOWN} more" in sentences(fits=fits)
    (first, *_) = standard_json.loads(json(found))["fits"]
    assert (len(first["unread"]), first["unread_count"]) == (LISTED, 1000)


@pytest.mark.parametrize("name", hostile.NAMES)
def test_names_that_strangers_chose_are_text(name):
    hostile_one = replace(
        SUGGESTION,
        model=name,
        classes=(name,),
        fits=(Fit("llama", 4, 32, (name,)),),
        misses=(replace(NEAR, missing=(name,), problem=name),),
    )
    assert hostile.traces(text(hostile_one), hostile.LINES[:-1]) == []


def test_json_says_the_same():
    found = standard_json.loads(json(SUGGESTION))
    assert found["fits"][1] == {
        "factorization": "gpt2", "layers": 4, "width": 32, "unread": ["a.weight", "b.weight"], "unread_count": 2
    }  # fmt: skip
    assert found["draft"] == {"text": SUGGESTION.draft.text, "problem": None}
