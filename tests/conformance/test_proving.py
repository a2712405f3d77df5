"""Names that a factorization says and no model of its class has."""

from tests.conformance import build_tiny_model, pretend
from tests.conformance.proving import names_said, names_unseen


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
