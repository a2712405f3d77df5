"""A configuration says which class a model is of, or its type does."""

import pytest

from hf_lineage.checking.source.describing import described
from hf_lineage.errors import NothingToCompare, UnlistedClass
from hf_lineage.hub import resolve
from tests.models import edit_json, tiny_gpt2, tiny_llama


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
