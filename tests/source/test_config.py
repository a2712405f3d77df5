"""What config.json says about a model is a plain value, made without reading anything else."""

import pytest

from hf_lineage.architecture.likeness import Within
from hf_lineage.architecture.registry import lookup
from hf_lineage.errors import NothingToCompare, UnlistedClass
from hf_lineage.hub.repo import resolve
from hf_lineage.source.config import Described, described, holds_others, named_class, whole_config
from tests.models import edit_json, tiny_gpt2, tiny_llama


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, False),
        ({"vision_config": {}}, True),
        ({"quantization_config": {}}, False),
        ({"vision_config": 7}, False),
        ({"vision": {}}, False),
    ],
)
def test_a_configuration_inside_another_one_says_that_there_are_several_parts(config, expected):
    assert holds_others(config) is expected


@pytest.mark.parametrize(("named", "expected"), [(["A", "B"], "A"), ([7, "B"], "B"), ("A", None), (None, None)])
def test_the_first_class_that_is_named_counts(named, expected):
    assert named_class({"architectures": named}) == expected


def test_a_part_still_knows_the_whole_configuration(tmp_path):
    repo = resolve(str(tiny_llama(tmp_path / "llama")))
    name, factorization = lookup(repo.config())
    model = Described(repo, {"hidden_size": 8}, name, factorization)
    assert whole_config(model) == {"hidden_size": 8}
    part = Described(repo, {"hidden_size": 8}, name, factorization, within=Within())
    assert whole_config(part) == repo.config()


@pytest.mark.parametrize("named", [None, []])
def test_without_a_class_the_type_counts_and_a_note_says_so(named, tmp_path):
    model = described(resolve(str(tiny_llama(tmp_path / "model", architectures=named))))
    assert (model.architecture, model.read_as) == ("LlamaModel", "")
    assert model.notes == (
        "config.json names no class; by its model_type it was read as LlamaModel, as transformers does",
    )
    assert described(resolve(str(tiny_gpt2(tmp_path / "gpt2", architectures=named)))).architecture == "GPT2Model"


def test_a_type_that_nobody_listed_says_nothing(tmp_path):
    for kind in ("theirs", None, 7, ["llama"]):
        folder = tiny_llama(tmp_path / str(kind), architectures=None, model_type=kind)
        with pytest.raises(UnlistedClass, match="names no class"):
            described(resolve(str(folder)))


def test_a_class_that_is_not_supported_is_not_read_as_another(tmp_path):
    folder = tiny_llama(tmp_path / "model", hidden_act="silu")
    edit_json(folder / "config.json", architectures=["MambaForCausalLM"], model_type="mamba")
    with pytest.raises(NothingToCompare, match="MambaForCausalLM is not supported"):
        described(resolve(str(folder)))
