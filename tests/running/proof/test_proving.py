"""A factorization of the user's own is proved on the module of transformers, or refused with what it says wrongly.

Names that a factorization says and no model of its class has.
"""

import re

import pytest
import transformers
import yaml

from hf_lineage.architecture.registry.lookups import factorizations
from hf_lineage.checking.single.user_registry import suggest
from hf_lineage.errors import NothingToCompare
from hf_lineage.hub.reference import resolve
from hf_lineage.running.proof.proving import names_said, names_unseen, prove
from tests.conformance import build_tiny_model, pretend, tiny_model


def test_every_name_of_a_right_file_is_on_disk(tmp_path):
    entry = pretend("llama", layers="model.layers.{layer}")
    assert names_unseen(names_said(entry), build_tiny_model("LlamaForCausalLM", tmp_path, {}, entry)) == set()


def test_a_name_that_the_class_never_writes_is_told(tmp_path):
    entry = pretend(
        "llama",
        layers="model.layers.{layer}",
        ignores=("mlp.router",),
        mlp={"norm": ("planted", "post_attention_layernorm")},
    )
    unseen = names_unseen(names_said(entry), build_tiny_model("LlamaForCausalLM", tmp_path, {}, entry))
    assert unseen == {"planted", "mlp.router"}


NAME = "Qwen3VLMoeTextModel"
"""A class of transformers that the registry does not list."""


@pytest.fixture(scope="module")
def drafted(tmp_path_factory):
    """The draft for a model of that class, as text, and its config.json."""
    folder = tmp_path_factory.mktemp("model")
    tiny_model(NAME, {}).save_pretrained(folder)
    return suggest(str(folder)).draft.text, resolve(str(folder)).config()


def loaded(text, tmp_path):
    (tmp_path / "drafts").mkdir()
    (tmp_path / "drafts/mine.yaml").write_text(text)
    return factorizations(tmp_path / "drafts")[0]


def test_a_draft_that_says_what_the_module_computes_is_proved(drafted, tmp_path):
    text, config = drafted
    proof = prove(loaded(text, tmp_path), NAME, config)
    assert (proof.holds, proof.release) == (True, transformers.__version__)


WRONG = {
    "gate and up exchanged": ((r"gate_up_proj: \[gate, up\]", "gate_up_proj: [up, gate]"), "deviations"),
    "value for key": (
        (r"key: self_attn.k_proj, value: self_attn.v_proj", "key: self_attn.v_proj, value: self_attn.k_proj"),
        "deviations",
    ),
    "no norm": ((r"attention: \{norm: input_layernorm, ", "attention: {"), "norms_left_out"),
    "another kind of norm": ((r"normalization: rms_norm", "normalization: layer_norm"), "wrong_normalization"),
    "a norm of the repository's own before the module's": (
        (r"norm: input_layernorm", "norm: [planted_norm, input_layernorm]"),
        "names_unseen",
    ),
    "layers of the repository's own before the module's": (
        (r"layers: layers.\{layer\}", "layers: ['planted.{layer}', 'layers.{layer}']"),
        "names_unseen",
    ),
    "a matrix that the module does not have": ((r"value: self_attn.v_proj", "value: self_attn.planted"), "unfinished"),
    "a matrix that it ignores instead": ((r"\Z", "ignores: [mlp.planted]\n"), "names_unseen"),
}


@pytest.mark.parametrize(("change", "by"), WRONG.values(), ids=WRONG.keys())
def test_a_draft_that_says_otherwise_is_not_proved(change, by, drafted, tmp_path):
    text, config = drafted
    changed = re.sub(*change, "".join(line for line in text.splitlines(True) if not line.startswith("#")))
    assert yaml.safe_load(changed) != yaml.safe_load(text)
    assert by in prove(loaded(changed, tmp_path), NAME, config).faults


@pytest.mark.parametrize(
    "name", ["NobodysModel", "AutoModel", "logging", "__name__", "PreTrainedModel", "a.b", "os; x"]
)
def test_what_is_no_class_of_transformers_is_not_run(name, drafted, tmp_path):
    with pytest.raises(NothingToCompare, match="has no class"):
        prove(loaded(drafted[0], tmp_path), name, drafted[1])


def test_settings_of_the_model_choose_the_form_that_is_proved():
    """GPT-NeoX with one residual and with two: both are the registry's, and the activation is the model's."""
    own = pretend("gpt_neox", layers="gpt_neox.layers.{layer}")
    for parallel in (True, False):
        config = {"use_parallel_residual": parallel, "hidden_act": "relu", "hidden_size": 10**9, "vocab_size": 10**9}
        assert prove(own, "GPTNeoXForCausalLM", config).faults == {}


def test_a_class_that_refuses_the_settings_is_not_proved_and_says_so(drafted, tmp_path):
    proof = prove(loaded(drafted[0], tmp_path), NAME, {**drafted[1], "hidden_act": "nobodys_activation"})
    assert not proof.holds
    assert "nobodys_activation" in proof.faults["unfinished"]
