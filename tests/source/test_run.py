"""A model is run from the files that were judged, in a process of its own; why it is not run is said."""

import shutil

import numpy as np
import pytest
import torch

from hf_lineage import Options
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.repo import resolve
from hf_lineage.source import run as run_module
from hf_lineage.source.model import open_model
from hf_lineage.source.run import part_key, run_model
from tests.models import EXAMPLES, edit_json
from tests.quantizing import repacked
from tests.running.models import opened, saved

BASE = "acme/llama-base"
WANTED = {"float32": ["float32", "float32 from disk", "float32 from disk"]}
WANTED |= {"bfloat16": ["float32", "bfloat16", "bfloat16 from disk"]}


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(EXAMPLES / BASE, tmp_path / "model")


def ran(folder, **options):
    model = open_model(resolve(str(folder)), Options())
    return run_model(model, model, Options(seed=5, **options))


def test_a_model_that_needs_more_memory_than_there_is_is_not_run(folder, monkeypatch):
    monkeypatch.setattr(run_module, "budgets", lambda _: {"cpu": 2**20})
    with pytest.raises(NothingToCompare, match=r"could not be run: it needs \d+ MiB of memory, and there are 1 MiB"):
        ran(folder).__enter__()


@pytest.mark.parametrize("dtype", WANTED)
def test_a_model_runs_in_float32_where_it_fits_else_as_it_is_stored_or_from_disk(tmp_path, monkeypatch, dtype):
    saved(tmp_path, "LlamaForCausalLM", lambda model: model.to(getattr(torch, dtype)))
    loads = []
    monkeypatch.setattr(run_module, "Process", lambda load, seconds: loads.append(load))
    numbers = sum(tensor.numbers for tensor in opened(tmp_path).checkpoint.tensors.values())
    for size in (4, 3, 1):
        monkeypatch.setattr(run_module, "budgets", lambda _, room=run_module.WORK + size * numbers: {"cpu": room})
        run_module._process(opened(tmp_path), Options(), str(tmp_path), ["model.safetensors"])
    assert [f"{load.dtype}{' from disk' * load.offload}" for load in loads] == WANTED[dtype]


def test_without_all_units_a_model_says_something_else_and_without_none_the_same(folder):
    """Layers beyond max_memory are read from disk meanwhile, code is not run, and no file may change."""
    for other in ("pytorch_model.bin", "adapter_config.json", "modeling.py"):
        (folder / other).write_text("raise SystemExit")
    edit_json(folder / "config.json", auto_map={"AutoModelForCausalLM": "modeling.Model"})
    file = folder / "model.safetensors"

    def run_and_change():
        with ran(folder, max_memory="2049MiB") as model:
            assert model.ran.inputs == {"short": (32, 16), "long": (1, 1024)}
            assert model.ran.on_disk > 2**19
            everything = model.hold({part_key("mlp", layer, 0): range(256) for layer in range(6)})
            nothing = model.hold({})
            for kind in ("short", "long"):
                assert np.mean(everything[kind]["lost"]) > 0.5
                assert np.abs(nothing[kind]["lost"]).max() < 1e-9
                assert nothing[kind]["unit"] == "nats"
            file.write_bytes(file.read_bytes()[:-1] + b"\x55")

    with pytest.raises(CheckpointError, match=r"model\.safetensors changed while the model ran; run again"):
        run_and_change()


@pytest.mark.parametrize("name", ["GPTQ", "NVFP4 of modelopt", "quanto", "HQQ", "FP8", "BitNet"])
@pytest.mark.long
def test_quantized_weights_are_run_as_they_are_decoded(tmp_path, name):
    from tests.checkpoint.formats.test_related import FORMATS

    pack, settings, _ = FORMATS[name]
    with ran(repacked(EXAMPLES / BASE, tmp_path / "model", pack, **settings)) as model:
        assert model.ran.numbers > 0
        assert np.mean(model.hold({part_key("mlp", 0, 0): range(256)})["short"]["lost"]) > 0
