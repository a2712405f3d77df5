"""What a model on disk can have wrong, and what the command line says about it."""

import pickle
import re

import gguf
import numpy as np
import pytest
import torch

from tests.invoking import check
from tests.models import WEIGHTS, Trap, edit_json, spoil


def configure(**changes):
    return lambda folder: edit_json(folder / "config.json", **changes)


def only_gguf(folder):
    (folder / "config.json").unlink()
    (folder / WEIGHTS).unlink()
    out = gguf.GGUFWriter(str(folder / "model-q4.gguf"), "mamba")
    out.add_tensor("token_embd.weight", np.ones((4, 32), np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


@pytest.mark.parametrize("side", ["fern/child", "acme/base"])
def test_a_gguf_file_of_another_architecture_is_named(hub, side):
    only_gguf(hub / side)
    outcome = check(hub)
    assert (outcome.code, outcome.err) == (3, "")
    assert outcome.rows[0] == ["acme/base", "-", "-", "-", "UNDECIDED", "unsupported"]
    assert "GGUF file has the architecture mamba, which hf-lineage cannot read" in outcome.sentences


def test_a_pickle_is_never_loaded(hub):
    trap = hub / "sprung"
    (hub / "fern/child" / WEIGHTS).unlink()
    (hub / "fern/child/pytorch_model.bin").write_bytes(pickle.dumps(Trap(trap)))
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
    assert outcome.rows == [["acme/base", "0.000", "-", "1", "UNDECIDED", "inconclusive"]]
    assert f"Weights in layers 0-1 of the {who} are not finite, or too large for float32" in outcome.sentences


@pytest.mark.parametrize("side", ["fern/child", "acme/base"])
def test_weights_that_are_all_zero_are_inconclusive(hub, side):
    spoil(hub / side, fill(0.0, range(2)))
    outcome = check(hub)
    assert outcome.code == 3
    assert outcome.rows == [["acme/base", "0.000", "0%", "1", "UNDECIDED", "inconclusive"]]
    assert "Only 0 of 2 layers hold weights that are not zero" in outcome.sentences


@pytest.mark.parametrize(("path", "other"), [("mlp.up_proj", "value_output"), ("self_attn.v_proj", "mlp")])
def test_what_is_wrong_along_one_path_is_told_and_the_other_is_judged(hub, path, other):
    spoil(hub / "fern/child", lambda tensors: [tensors[key].fill_(torch.nan) for key in tensors if path in key])
    outcome = check(hub)
    assert outcome.code == 3
    assert "RELATED part" in outcome.sentences
    assert re.search("Along (mlp|value_output), weights in layers 0-1 of the candidate are not fin", outcome.sentences)
    assert [row[-1] for row in check(hub, "--explain").rows if other in row] == ["inherited"]
