"""A class that the registry does not list: every command that its message prints works as it stands."""

import re

import pytest
import torch

from hf_lineage.architecture.registry import registry_root
from tests.invoking import lineage
from tests.models import card, edit_json, family, spoil, tiny_llama

AS = "as LlamaForCausalLM (--as) in place of YiForCausalLM; it is not proved that both compute the same"


@pytest.fixture
def hub(tmp_path):
    hub = family(tmp_path / "hub")
    card(tiny_llama(hub / "fern/other", seed=8), "acme/base")
    for name in ("child", "other"):
        edit_json(
            hub / f"fern/{name}/config.json", architectures=["YiForCausalLM"], model_type="Yi", auto_map={"A": "b.C"}
        )
    return hub


def test_the_message_prints_the_options_that_work_where_two_classes_fit(hub):
    typed = ("check", "fern/child", "--base", "acme/base", "--local-hub", hub)
    refused = lineage(*typed)
    assert refused.code == 3
    assert "add `--as LlamaForCausalLM` or `--as GemmaForCausalLM` to read it as one of them" in refused.sentences
    assert "Next: Read it as that class, with --as LlamaForCausalLM." in refused.sentences
    for name in re.findall(r"`--as (\w+)`", refused.sentences):
        result = lineage(*typed, "--as", name)
        assert (result.code, result.rows[0][-2:]) == (0, ["VERIFIED", "inherited"])
        assert AS.replace("LlamaForCausalLM", name) in result.sentences
        assert "code of the repository" in result.sentences


def test_the_one_class_that_fits_is_taken_at_the_first_command_and_verifies_nothing(hub):
    for name in ("child", "other"):
        edit_json(hub / f"fern/{name}/config.json", hidden_act="silu")
    related = lineage("check", "fern/child", "--local-hub", hub)
    assert (related.code, related.rows[0][-2:]) == (3, ["RELATED", "unlisted-class"])
    assert "Read as LlamaForCausalLM. YiForCausalLM is not in the registry" in related.sentences
    assert "not looked at" not in related.sentences
    assert "Next: If you know that its class computes what LlamaForCausalLM computes, add --as" in related.sentences
    assert lineage("check", "fern/other", "--local-hub", hub).code == 1


def test_every_command_reads_it_so(hub, tmp_path):
    there = ("--as", "LlamaForCausalLM", "--local-hub", hub)
    assert AS in lineage("compare", "acme/base", "fern/child", *there).sentences
    assert lineage("extract", "fern/child", *there, "-o", tmp_path / "signature").code == 0
    assert lineage("inspect", "fern/child", *there).code == 0
    assert lineage("annotate", hub / "fern/child", "--write", *there).code == 0
    assert "--as LlamaForCausalLM" in (hub / "fern/child/README.md").read_text()


def test_names_that_fit_nothing_are_told_how_a_factorization_is_written(hub):
    def change(tensors):
        for name in list(tensors):
            tensors[name.replace("mlp.up_proj", "mlp.linear_v")] = tensors.pop(name)
        tensors |= {f"model.layers.{layer}.memory.gain": torch.ones(32) for layer in range(2)}

    spoil(hub / "fern/child", change)
    refused = lineage("check", "fern/child", "--base", "acme/base", "--local-hub", hub)
    assert (refused.code, "registry/README.md explains how to write a factorization" in refused.sentences) == (3, True)
    assert "The class is not supported yet." in refused.sentences


def test_a_registry_that_is_not_there_or_broken_is_one_line(hub, tmp_path):
    (tmp_path / "x.yaml").write_text("classes: [YiForCausalLM]\nlayers: [1]\n")
    for folder, message in (("./nowhere", "nowhere is not a folder; name the one with the factorizations"),
                            (tmp_path, "x.yaml")):  # fmt: skip
        assert message in lineage("check", "fern/child", "--as", folder, "--local-hub", hub).error


def test_a_folder_of_factorizations_in_a_repository_is_not_read(hub):
    """Only the user says which folder counts, and a class that the registry lists is not read by any."""
    _, rest = (registry_root() / "llama.yaml").read_text().split("\nlayers:", 1)
    for folder in (hub / "fern/child", hub / "fern/child/registry"):
        folder.mkdir(exist_ok=True)
        (folder / "yi.yaml").write_text(f"classes: [LlamaForCausalLM, YiForCausalLM]\nlayers:{rest}")
    assert lineage("check", "fern/child", "--local-hub", hub).code == 3
