"""A CTranslate2 file of every class that is recognised holds the tensors of its original, by their names."""

import numpy as np
import pytest

from hf_lineage.architecture.registry.lookups import lookup
from hf_lineage.checking.source.describing import described
from hf_lineage.checking.source.opening import bound
from hf_lineage.checkpoint.foreign.ctranslate2.names import Contents, config_of, models, name_tensors
from hf_lineage.errors import NothingToCompare, RegistryError
from hf_lineage.hub.reference import RepoRef
from tests import ctranslate2_models
from tests.conformance import tiny_model

SETTINGS: dict[str, list[dict[str, object]]] = {
    "BartForConditionalGeneration": [{"normalize_before": False}],
    "BertModel": [{"position_embedding_type": "absolute"}],
    "MBartForConditionalGeneration": [{"normalize_before": True}],
    "T5ForConditionalGeneration": [{"feed_forward_proj": "gated-gelu"}, {"feed_forward_proj": "relu"}],
}
"""What the converter asks of the configuration, or makes other layers of."""
KIN = {
    "MistralForCausalLM": "LlamaForCausalLM",
    "Qwen2ForCausalLM": "LlamaForCausalLM",
    "Qwen3ForCausalLM": "LlamaForCausalLM",
}
"""Classes -> the one with the same layers that is recognised in their files."""
CASES = [(name, name, settings) for name in sorted(models()) for settings in SETTINGS.get(name, [{}])]
CASES += [(name, kin, {}) for name, kin in KIN.items()]


@pytest.mark.parametrize(("name", "recognised", "settings"), CASES, ids=str)
def test_a_file_of_a_class_holds_the_tensors_of_its_layers(name, recognised, settings, tmp_path):
    tiny_model(name, settings).save_pretrained(tmp_path / "original")
    folder = ctranslate2_models.converted(tmp_path / "original", tmp_path / "ct2", "float32")
    original = bound(described(RepoRef("original", tmp_path / "original")))
    repo = described(RepoRef("ct2", folder))
    read = bound(repo)
    assert repo.architecture == recognised
    assert (read.layout.widths, read.layout.heads, read.layout.paths) == (
        original.layout.widths,
        original.layout.heads,
        original.layout.paths,
    )
    ours, theirs = ([*layout.everything] for layout in (read.layout, original.layout))
    assert ours
    for own, other in zip(ours, theirs, strict=True):
        assert own.activation == other.activation
        for role, slot in other.slots.items():
            np.testing.assert_array_equal(
                read.checkpoint.read(own.slots[role].tensor), original.checkpoint.read(slot.tensor)
            )


def contents(specification="TransformerEncoderSpec", shapes=None, **numbers):
    """What a file holds; `__` in the name of a number stands for a slash."""
    return Contents(specification, shapes or {}, {name.replace("__", "/"): value for name, value in numbers.items()})


def test_a_specification_that_nobody_knows_is_not_read():
    with pytest.raises(NothingToCompare, match="is a Wav2Vec2Spec with layers that hf-lineage cannot read;"):
        config_of(contents("Wav2Vec2Spec"))


def test_switches_tell_classes_of_one_specification_apart():
    names = {"encoder/layernorm_embedding/gamma": (4,), "encoder/layer_0/ffn/layer_norm/beta": (4,)}
    told = config_of(contents(shapes=names, encoder__pre_norm=0, encoder__num_heads=2, encoder__activation=3))
    assert told == {"architectures": ["BertModel"], "num_attention_heads": 2, "hidden_act": "gelu"}
    with pytest.raises(NothingToCompare):
        config_of(contents(shapes=names, encoder__pre_norm=1))
    assert "hidden_act" not in config_of(contents(shapes=names, encoder__pre_norm=0, encoder__activation=99))


def test_heads_that_do_not_divide_what_is_joined_are_refused():
    _, factorization = lookup({"architectures": ["BertModel"]})
    joined = {"encoder/layer_0/self_attention/linear_0/weight": (10, 4)}
    for heads in (0, 3, 10**6):
        with pytest.raises(NothingToCompare, match="queries, keys and values: 10 rows"):
            list(name_tensors(factorization, contents(shapes=joined, encoder__num_heads=heads)))


def test_a_table_that_breaks_the_schema_is_our_error(monkeypatch, tmp_path):
    (tmp_path / "ctranslate2").mkdir()
    (tmp_path / "ctranslate2/models.yaml").write_text("activations: [relu]\nmodels: [{class: X, spec: Y}]\n")
    monkeypatch.setattr("hf_lineage.architecture.registry.tables.registry_root", lambda: tmp_path)
    with pytest.raises(RegistryError, match=r"ctranslate2/models\.yaml"):
        models()
