"""Ancestors: of a base that cannot be compared the reason names the base that its own card declares."""

import pytest
import torch

from hf_lineage import Options, check
from tests.models import card, edit_json, fine_tuned, spoil, tiny_llama

WHY = "the weights are stored as EXL2, which is not decoded; check the release in F16, BF16 or F32 instead"


def unreadable(folder, base=None):
    """A model that is stored in a way that is not decoded, and that declares this base."""
    tiny_llama(folder, seed=9)

    def pack(tensors):
        tensors["model.layers.0.mlp.up_proj.q_invperm"] = torch.ones(8, dtype=torch.int32)

    edit_json(spoil(folder, pack) / "config.json", quantization_config={"quant_method": "exl2"})
    return card(folder, base, "quantized")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """acme/base; acme/packed, which says it is that quantized; and fern/child, which declares the latter."""
    monkeypatch.chdir(tmp_path)
    base = tiny_llama(tmp_path / "acme/base")
    unreadable(tmp_path / "acme/packed", "acme/base")
    card(fine_tuned(base, tmp_path / "fern/child"), "acme/packed", "finetune")
    return tmp_path


def row(hub, model="fern/child", **options):
    (one,) = check(model, options=Options(local_hub=hub, seed=0, **options)).rows
    return one


def test_the_base_that_its_card_declares_is_named_and_not_compared(hub):
    judged = row(hub)
    assert (judged.verdict.code, judged.verdict.exit_code) == ("unsupported", 3)
    assert judged.verdict.reason == f"acme/packed: {WHY}; name its base: --base acme/base"
    assert not judged.verdict.evidence


@pytest.mark.parametrize("declared", [None, ["acme/base", "acme/other"], "/home/me/base", "./acme/base"])
def test_where_its_card_names_none_or_several_or_a_path_nothing_is_named(declared, hub):
    card(hub / "acme/packed", declared)
    assert row(hub).verdict.reason == f"acme/packed: {WHY}"


def test_of_a_base_of_an_unknown_class_that_is_named(hub):
    edit_json(hub / "acme/base/config.json", architectures=["YiForCausalLM"], model_type="Yi")
    tiny_llama(hub / "acme/first")
    card(hub / "acme/base", "acme/first")
    card(hub / "fern/child", "acme/base")
    judged = row(hub)
    assert judged.verdict.code == "unsupported"
    assert "--as LlamaForCausalLM" in judged.verdict.reason
    assert "name its base" not in judged.verdict.reason
