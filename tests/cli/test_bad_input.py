"""What a model on disk can have wrong, and what the command line says about it."""

import os
import pickle
import re

import gguf
import numpy as np
import pytest
import torch

from tests.invoking import check, lineage
from tests.models import (
    WEIGHTS,
    Trap,
    edit_json,
    fine_tuned,
    raw_safetensors,
    shard,
    spoil,
    tiny_gpt2,
    tiny_llama,
)


def configure(**changes):
    return lambda folder: edit_json(folder / "config.json", **changes)


def write(file, content):
    return lambda folder: (folder / file).write_bytes(content)


def replaced(file, make):
    """The file is gone and something else bears its name."""

    def change(folder):
        (folder / file).unlink()
        make(folder / file)

    return change


def lying_header(folder):
    raw_safetensors(folder / WEIGHTS, {"a": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 4]}}, b"1234")


def missing_shard(folder):
    (shard(folder) / "model-00002-of-00002.safetensors").unlink()


def packed(method, kind):
    """Integers under another name, as EXL2 and GPTQ store them; of GPTQ there are three tensors for each matrix."""

    def pack(tensors):
        for name in [name for name in tensors if "_proj" in name]:
            tensors[name.replace("weight", kind)] = tensors.pop(name).to(torch.int32)

    def change(folder):
        spoil(folder, pack)
        edit_json(folder / "config.json", quantization_config={"quant_method": method, "bits": 4})

    return change


DAMAGED = {
    "no config": (lambda folder: (folder / "config.json").unlink(), "has no config.json, so it is not a transformers "
        "mod"),
    "config is text": (write("config.json", b"hello"), "config.json is not JSON: Expecting value: line 1 column 1"),
    "config is a list": (write("config.json", b"[]"), "config.json holds a list, not an object; download it again"),
    "config is nested": (write("config.json", b"[" * 10**5), "config.json is nested too deeply; download it again"),
    "config is huge": (write("config.json", b" " * (2**24 + 1)), "config.json is larger than 16 MiB; shorten it"),
    "config is a pipe": (replaced("config.json", os.mkfifo), "config.json is not a readable file but a folder, a"),
    "no heads": (configure(num_attention_heads=0), "`num_attention_heads` must be a positive integer, not 0"),
    "negative heads": (configure(num_attention_heads=-4), "`num_attention_heads` must be a positive integer, not -4"),
    "heads as text": (configure(num_attention_heads="4"), "`num_attention_heads` must be a positive integer, not '4'"),
    "heads missing": (configure(num_attention_heads=None), "`num_attention_heads` must be a positive integer, not Non"),
    "heads a fraction": (configure(num_attention_heads=4.5), "`num_attention_heads` must be a positive integer, not 4"),
    "heads true": (configure(num_attention_heads=True), "`num_attention_heads` must be a positive integer, not True"),
    "heads huge": (configure(num_attention_heads=10**30), "has shape (32, 32)"),
    "weights cut off": (lambda folder: os.truncate(folder / WEIGHTS, 5000), "is damaged: "),
    "weights lie": (lying_header, "model.safetensors is damaged: "),
    "weights are a folder": (replaced(WEIGHTS, os.mkdir), "model.safetensors is not a readable file but a folder, a"),
    "weights are a link": (replaced(WEIGHTS, lambda path: path.symlink_to("gone")), "model.safetensors is not a read"),
    "shard missing": (missing_shard, "names the shard model-00002-of-00002.safetensors, which is missing"),
    "other class": (
        configure(architectures=["GPT2LMHeadModel"], model_type="gpt2", n_head=4),
        "the weights are not those of the class",
    ),
    "layer missing": (
        lambda folder: spoil(folder, lambda tensors: [tensors.pop(n) for n in list(tensors) if "layers.0." in n]),
        "the weights have no layer 0 but",
    ),
    "tensor missing": (
        lambda folder: spoil(folder, lambda tensors: tensors.pop("model.layers.1.mlp.down_proj.weight")),
        "model.layers.1 has no tensor mlp.down_proj",
    ),
    "tensor too short": (
        lambda folder: spoil(folder, lambda t: t.update({"model.layers.1.mlp.up_proj.weight": torch.ones(7, 32)})),
        "model.layers.1.mlp.up_proj.weight has shape (7, 32), but the rest of the model needs (48, 32)",
    ),
    "GPTQ without scales": (packed("gptq", "qweight"), ".scales is missing, and"),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_model_is_an_error_that_names_it(hub, damage, message):
    damage(hub / "fern/child")
    error = check(hub).error
    assert message in error
    assert "fern/child" in error


@pytest.mark.parametrize("damage", ["config is a pipe", "heads huge", "weights cut off", "shard missing"])
def test_a_damaged_base_is_unreadable(hub, damage):
    DAMAGED[damage][0](hub / "acme/base")
    outcome = check(hub)
    assert (outcome.code, outcome.err) == (2, "")
    assert outcome.rows == [["acme/base", "finetune", "-", "-", "-", "-", "UNREADABLE"]]
    assert "acme/base" in outcome.sentences.partition("UNREADABLE")[2]


def only(file, content=b""):
    return replaced(WEIGHTS, lambda path: (path.parent / file).write_bytes(content))


def only_adapter(folder):
    (folder / "config.json").unlink()
    (folder / WEIGHTS).rename(folder / "adapter_model.safetensors")
    edit_json(folder / "adapter_config.json", base_model_name_or_path="acme/base")


def only_gguf(folder):
    (folder / "config.json").unlink()
    (folder / WEIGHTS).unlink()
    out = gguf.GGUFWriter(str(folder / "model-q4.gguf"), "mamba")
    out.add_tensor("token_embd.weight", np.ones((4, 32), np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def half(folder):
    spoil(folder, lambda tensors: tensors.update({k: t.to(torch.int8) for k, t in tensors.items()}))


def odd(**config):
    """A configuration of a type that nobody knows."""
    return configure(model_type="nose", **config)


NOTHING_TO_JUDGE = {
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), "holds no weights (model.safetensors or"),
    "pickle": (only("pytorch_model.bin"), "holds its weights as a pickle (pytorch_model.bin), which is never loaded"),
    "GGUF": (only_gguf, "the GGUF file has the architecture mamba, which hf-lineage cannot read"),
    "LoRA adapter": (only_adapter, "LoRA adapter"),
    "8 bit integers": (half, "is stored as I8, and config.json does not say how to decode it"),
    "EXL2": (packed("exl2", "q_weight"), "the weights are stored as EXL2, which is not decoded; check the release in "
        "F16, BF16 or F32"),
    "unknown class": (odd(architectures=["NoseForCausalLM"]), "NoseForCausalLM is not in the registry"),
    "remote code": (odd(architectures=["Nose"], auto_map={"AutoModel": "nose.Nose"}), "it is remote code (auto_"),
    "not a class": (odd(architectures=None), "config.json names no class under `architectures`"),
    "class as text": (odd(architectures="LlamaForCausalLM"), "config.json names no class under `architectures`"),
    "class a number": (odd(architectures=[7]), "config.json names no class under `architectures`"),
    "no classes": (odd(architectures=[]), "config.json names no class under `architectures`"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("side", "what"),
    [*(("fern/child", what) for what in NOTHING_TO_JUDGE), ("acme/base", "GGUF"), ("acme/base", "pickle")],
)
def test_where_there_is_nothing_to_judge_the_row_says_why(hub, side, what):
    change, message = NOTHING_TO_JUDGE[what]
    change(hub / side)
    outcome = check(hub)
    assert (outcome.code, outcome.err) == (3, "")
    assert outcome.rows[0][0] == "acme/base"
    assert outcome.rows[0][-5:] == ["-", "-", "-", "-", "UNVERIFIABLE"]
    assert message in outcome.sentences


def test_a_pickle_is_never_loaded(hub):
    trap = hub / "sprung"
    only("pytorch_model.bin", pickle.dumps(Trap(trap)))(hub / "fern/child")
    assert check(hub).code == 3
    assert not trap.exists()


@pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "NoseForCausalLM"])
def test_the_code_of_a_repository_is_never_imported(hub, architecture):
    trap = hub / "sprung"
    child = hub / "fern/child"
    for name in ("modeling_nose.py", "configuration_nose.py", "__init__.py", "torch.py", "yaml.py"):
        (child / name).write_text(f"open({str(trap)!r}, 'w')")
    configure(architectures=[architecture], auto_map={"AutoModelForCausalLM": "modeling_nose.Nose"})(child)
    assert check(hub).code == (0 if architecture.startswith("Llama") else 3)
    assert not trap.exists()


def test_models_of_another_width_are_compared_unit_by_unit(hub):
    tiny_llama(hub / "acme/base", width=64)
    outcome = check(hub)
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.rows[0][-1] == "UNRELATED"


def test_models_of_another_width_that_share_no_tokens_are_incompatible(hub):
    spoil(tiny_llama(hub / "acme/base", width=64), lambda tensors: tensors.pop("model.embed_tokens.weight"))
    outcome = check(hub)
    assert (outcome.code, outcome.err) == (3, "")
    assert outcome.rows == [["acme/base", "finetune", "-", "-", "-", "-", "INCOMPATIBLE"]]
    assert "acme/base has 2 layers of width 64, fern/child has 2 of width 32" in outcome.sentences


def test_models_of_two_classes_of_one_shape_are_compared(hub):
    tiny_gpt2(hub / "acme/base", seed=3)
    assert check(hub).rows[0][-1] == "UNRELATED"


def fill(value, layers):
    """Every matrix of these layers holds one value."""

    def change(tensors):
        for name, tensor in tensors.items():
            if tensor.ndim == 2 and name.startswith(tuple(f"model.layers.{layer}." for layer in layers)):
                tensor.fill_(value)

    return change


@pytest.mark.parametrize(("who", "value"), [("candidate", float("nan")), ("base", float("inf")), ("candidate", 1e38)])
def test_weights_that_are_not_finite_or_leave_float32_in_products_are_inconclusive(hub, who, value):
    spoil(hub / ("acme/base" if who == "base" else "fern/child"), fill(value, range(2)))
    outcome = check(hub)
    assert outcome.code == 3
    assert outcome.rows == [
        ["acme/base", "finetune", "mlp", "0.000", "-", "1", "INCONCLUSIVE"],
        ["value_output", "0.000", "-", "1", "INCONCLUSIVE"],
    ]
    assert f"weights in layers 0-1 of the {who} are not finite, or too large for float32" in outcome.sentences


@pytest.mark.parametrize("side", ["fern/child", "acme/base"])
def test_weights_that_are_all_zero_are_inconclusive(hub, side):
    spoil(hub / side, fill(0.0, range(2)))
    outcome = check(hub)
    assert outcome.code == 3
    assert outcome.rows == [
        ["acme/base", "finetune", "mlp", "0.000", "0%", "1", "INCONCLUSIVE"],
        ["value_output", "0.000", "0%", "1", "INCONCLUSIVE"],
    ]
    assert "only 0 of 2 layers hold weights that are not zero" in outcome.sentences


@pytest.mark.parametrize(("path", "other"), [("mlp.up_proj", "value_output"), ("self_attn.v_proj", "mlp")])
def test_what_is_wrong_along_one_path_is_told_and_the_other_is_judged(hub, path, other):
    spoil(hub / "fern/child", lambda tensors: [tensors[key].fill_(torch.nan) for key in tensors if path in key])
    outcome = check(hub)
    assert outcome.code == 3
    assert "RELATED in part" in outcome.sentences
    assert re.search(
        "along (mlp|value_output), weights in layers 0-1 of the candidate are not finite", outcome.sentences
    )
    assert [row[-1] for row in outcome.rows if other in row] == ["RELATED"]


def test_one_layer_of_six_that_is_zero_does_not_hide_the_ancestry(tmp_path):
    base = tiny_llama(tmp_path / "base", layers=6)
    child = spoil(fine_tuned(base, tmp_path / "child"), fill(0.0, [3]))
    outcome = lineage("check", child, "--base", base)
    assert (outcome.code, outcome.rows[0][-1]) == (0, "RELATED")
