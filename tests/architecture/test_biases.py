import pytest

from hf_lineage.architecture.biases import refuse_biases, vectors
from hf_lineage.architecture.lookup import Slot
from hf_lineage.architecture.matrix_sets import LayerSet
from hf_lineage.errors import NothingToCompare

GATE = LayerSet({"gate": Slot("mlp.gate_proj.weight", ("gate",), "gate")}, None, None, None)
BIASED = LayerSet(GATE.slots, None, None, None, biases={"mlp.gate_proj.weight": "mlp.gate_proj.bias"})
CORRECTED = LayerSet(GATE.slots, "norm.weight", None, None, router="mlp.gate.weight", correction="mlp.gate.added")


def test_the_vectors_of_a_set_are_named_by_their_kind():
    assert list(vectors(GATE)) == []
    assert list(vectors(BIASED)) == [("gate", "mlp.gate_proj.bias")]
    assert list(vectors(CORRECTED)) == [("correction", "mlp.gate.added")]


@pytest.mark.parametrize(
    ("architecture", "config", "layer_set"),
    [
        ("LlamaForCausalLM", {}, GATE),
        ("LlamaForCausalLM", {"mlp_bias": True}, BIASED),
        ("Emu3ForCausalLM", {}, BIASED),
        ("GptOssForCausalLM", {}, BIASED),
        ("DeepseekV3ForCausalLM", {}, CORRECTED),
        ("AClassOfAnotherLibrary", {}, BIASED),
    ],
)
def test_what_a_class_loads_is_judged(architecture, config, layer_set):
    refuse_biases(architecture, [layer_set], config)


@pytest.mark.parametrize(
    ("architecture", "config", "layer_set"),
    [
        ("LlamaForCausalLM", {}, BIASED),
        ("LlamaForCausalLM", {"mlp_bias": False}, BIASED),
        ("Emu3ForCausalLM", {"mlp_bias": False}, BIASED),
        ("Qwen2ForCausalLM", {"mlp_bias": True}, BIASED),
        ("Qwen3MoeForCausalLM", {}, CORRECTED),
    ],
)
def test_what_it_does_not_load_is_refused(architecture, config, layer_set):
    with pytest.raises(NothingToCompare, match=f"is stored, which {architecture} does not load as config.json is"):
        refuse_biases(architecture, [layer_set], config)
