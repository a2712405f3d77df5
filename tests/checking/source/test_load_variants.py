"""Variants: an adapter beside the weights, put on them or on the model that it names."""

import pytest
import torch
import transformers

from hf_lineage import Options, compare
from hf_lineage.checking.source.describing import described
from hf_lineage.checking.source.load_variants import with_adapter
from hf_lineage.checking.source.opening import opened
from hf_lineage.hub.reference import resolve
from tests.checking.test_decoys import LLAMA, adapter
from tests.decoys import made
from tests.models import edit_json, tiny_llama


@pytest.fixture
def child(online, tmp_path):
    """Publish A, B and a copy of A with a small adapter that says it was trained on a model of our choice."""
    pair = made(LLAMA, {}, tmp_path)
    folder = adapter(pair, 2, 0.05)

    def publish(base):
        edit_json(folder / "adapter_config.json", base_model_name_or_path=base)
        for name, own in (("acme/a", pair.a), ("acme/b", pair.b), ("fern/child", folder)):
            online.publish(name, own)
        return pair

    return publish


def test_by_its_name_on_the_hub_an_adapter_comes_on_top_of_the_model_it_names(child):
    pair = child("acme/b")
    with torch.no_grad():
        there = transformers.AutoModelForCausalLM.from_pretrained("fern/child")
        name = "model.layers.1.self_attn.q_proj.weight"
        own = transformers.AutoModelForCausalLM.from_pretrained(pair.b)
        torch.testing.assert_close(there.state_dict()[name], own.state_dict()[name])
    (row,) = compare("acme/a", "fern/child").rows
    assert row.verdict.name == "UNVERIFIABLE"
    assert row.verdict.reason == (
        "loaded from its weights alone fern/child is RELATED, loaded with the adapter on top of acme/b from the Hub, "
        "as transformers does where peft is installed, it is UNRELATED; remove the adapter or merge it"
    )


def test_an_adapter_of_the_same_base_is_said(child):
    child("acme/a")
    (row,) = compare("acme/a", "fern/child").rows
    assert row.verdict.name == "RELATED"
    assert [note.partition(", as ")[0] for note in row.notes] == [
        "fern/child: RELATED also when loaded with the adapter on top of the weights",
        "fern/child: RELATED also when loaded with the adapter on top of acme/a from the Hub",
    ]


def test_the_model_that_an_adapter_names_is_read_as_the_user_says(online, tmp_path):
    pair = made(LLAMA, {}, tmp_path)
    folder = adapter(pair, 2, 0.05)
    edit_json(folder / "adapter_config.json", base_model_name_or_path="acme/a")
    for name, own in (("acme/a", pair.a), ("fern/child", folder)):
        edit_json(own / "config.json", architectures=["OursForCausalLM"])
        online.publish(name, own)
    (row,) = compare("acme/a", "fern/child", Options(as_class="LlamaForCausalLM")).rows
    assert row.verdict.name == "RELATED"
    assert any("loaded with the adapter on top of acme/a" in note for note in row.notes)


@pytest.mark.parametrize("base", ["/etc", "../a", "~/a", "no/such", "", None])
def test_what_an_adapter_names_is_never_a_folder(child, base):
    child(base)
    (row,) = compare("acme/a", "fern/child").rows
    assert row.verdict.name == "UNVERIFIABLE"
    assert "it is UNVERIFIABLE: " in row.verdict.reason


def test_without_an_adapter_there_is_one_way_to_load_a_model(tmp_path):
    model = opened(described(resolve(str(tiny_llama(tmp_path / "model")))))
    assert with_adapter(model) == {}
