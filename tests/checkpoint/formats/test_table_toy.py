"""A storage format is one value and one entry of the table: here bytes with a scale for each row."""

import shutil

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from hf_lineage import Options, compare
from hf_lineage.checkpoint.formats import table
from hf_lineage.checkpoint.tensor import TensorInfo
from tests.models import WEIGHTS, edit_json, tiny_llama


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
    """A copy of a model in that format."""
    shutil.copytree(source, folder)
    stored = {}
    for name, tensor in load_file(source / WEIGHTS).items():
        scale = tensor.abs().amax(dim=-1, keepdim=True) / 127
        whole = {name: tensor} if tensor.ndim == 1 else {name: (tensor / scale).round().to(torch.int8)}
        stored |= whole | ({} if tensor.ndim == 1 else {f"{name}.scale": scale})
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
