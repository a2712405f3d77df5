"""Formats: another way of storing tensors is another entry of the table, and what has none is refused by its name."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_lineage import Options, compare
from hf_lineage.checkpoint.formats import table
from hf_lineage.checkpoint.formats.table import BY_END, BY_METHOD, tensors_of
from hf_lineage.checkpoint.tensor import StoredTensor, TensorInfo
from hf_lineage.errors import NothingToCompare
from tests.invoking import lineage
from tests.models import WEIGHTS, edit_json, tiny_llama

PLAIN = {"norm.weight": StoredTensor(Path("file"), "F32", (3,), 0)}
INSTEAD = "check the release in F16, BF16 or F32 instead"
NOT_DECODED = f"the weights are stored as {{}}, which is not decoded; {INSTEAD}"
OTHER_FORM = "the weights are quantized (U8); config.json names `{}`, but hf-lineage does not decode this form of it; "
SUPPORTED = ("gptq", "awq", "bitsandbytes", "fp8", "mxfp4", "compressed-tensors", "made-up")
NO_NAME = f"the weights are quantized (U8), and config.json does not say how; {INSTEAD}"
GROUP = {"type": "hadamard", "apply": [{"targets": ["re:.*down_proj$"], "location": "input"}]}
ROTATED: list[Any] = [
    ("compressed-tensors", {"transform_config": {"config_groups": {"R4": one}}}) for one in (GROUP, "?")
]
ROTATED += [("bitnet", {"rotation": True}), ("fp8", {"rotation_config": {"kind": "random"}})]


class Bytes:
    """Matrices as bytes, with a scale for each row beside them."""

    name = "bytes"

    def recognises(self, stored, config):
        return config.get("quantization_config", {}).get("quant_method") == "bytes"

    def first_read(self, stored):
        return []

    def tensors(self, stored, config):
        plain = [name for name in stored if not name.endswith(".scale")]
        parts = {name: (name, f"{name}.scale")[: 1 + (f"{name}.scale" in stored)] for name in plain}
        return {name: TensorInfo(stored[name].shape, parts[name], decode) for name in plain}


def decode(parts):
    return parts[0] if len(parts) == 1 else parts[0].astype(np.float32) * parts[1]


def quantized(source, folder):
    shutil.copytree(source, folder)
    stored = load_file(source / WEIGHTS)
    for name, tensor in [*stored.items()]:
        if tensor.ndim > 1:
            scale = stored[f"{name}.scale"] = tensor.abs().amax(dim=-1, keepdim=True) / 127
            stored[name] = (tensor / scale).round().to(torch.int8)
    save_file(stored, folder / WEIGHTS)
    edit_json(folder / "config.json", quantization_config={"quant_method": "bytes"})
    return folder


def test_a_format_that_is_added_to_the_table_is_decoded_and_compared(tmp_path, monkeypatch):
    base = tiny_llama(tmp_path / "base")
    model = quantized(base, tmp_path / "quantized")
    monkeypatch.setattr(table, "FORMATS", (Bytes(), *table.FORMATS))
    outcome = compare(str(base), str(model), Options(seed=0)).rows[0].verdict
    assert outcome.code == "inherited"
    assert 0.999 < outcome.evidence["mlp"].comparison.score < 1


def config(name):
    return {"quantization_config": {"quant_method": name}}


def refusal(said, end=".odd"):
    stored = PLAIN | {f"model.layers.0.mlp.up_proj{end}": StoredTensor(Path("file"), "U8", (2, 3), 0)}
    with pytest.raises(NothingToCompare) as error:
        tensors_of(stored, said)
    return str(error.value)


@pytest.mark.parametrize(
    ("said", "end", "message"),
    [
        *((config(method), ".odd", NOT_DECODED.format(name)) for method, name in BY_METHOD.items()),
        *(({}, end, NOT_DECODED.format(name)) for end, name in BY_END.items()),
        *((config(method), ".odd", OTHER_FORM.format(method) + INSTEAD) for method in SUPPORTED),
        *((config(method), ".odd", NO_NAME) for method in (None, ["gptq"], "", 7)),
    ],
)
def test_a_format_is_named_after_the_configuration_or_else_its_tensors(said, end, message):
    assert refusal(said, end) == message


def test_a_hostile_name_is_cut_and_weights_in_floating_point_are_always_read():
    message = refusal(config("\x1b[31m\n" * 1000))
    assert message.isprintable()
    assert len(message) < 300
    for method in (*BY_METHOD, "unknown"):
        assert list(tensors_of(PLAIN, config(method))) == ["norm.weight"]


@pytest.mark.parametrize(("method", "stated"), ROTATED)
def test_weights_that_are_stored_rotated_are_refused_with_what_to_do(tmp_path, method, stated):
    model = tiny_llama(tmp_path)
    edit_json(model / "config.json", quantization_config={"quant_method": method} | stated)
    result, (key,) = lineage("check", str(model), "--base", str(model)), stated
    instead = "as by QuaRot or SpinQuant), which is not read; check the original of the same model"
    told = f"{model}: the weights are stored rotated (`{key}` in config.json, {instead}"
    assert (result.code, result.error) == (2, told)
