"""A model is opened as its loaders open it, from a folder and by its name on the Hub."""

import importlib
import shutil

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from hf_lineage import Options, compare
from hf_lineage.checkpoint.weight_files import foreign_model
from hf_lineage.hub.repo import RepoRef, resolve
from hf_lineage.source.config import read_config
from hf_lineage.source.headers import headers, read_headers
from tests.models import WEIGHTS, edit_json, fine_tuned, tiny_gpt2, tiny_llama


def quantized_gpt2(source, folder, pack, settings):
    """A copy of a GPT-2 as GPTQ and bitsandbytes store it: every matrix of its layers turned to (out, in)."""
    shutil.copytree(source, folder)
    stored = load_file(source / WEIGHTS)
    for name in [name for name in stored if name.startswith("h.") and stored[name].ndim == 2]:
        start = name.removesuffix(".weight")
        parts = pack(stored.pop(name).T.contiguous())
        stored |= {f"{start}{end}": part.contiguous() for end, part in parts.items()}
    save_file(stored, folder / WEIGHTS)
    edit_json(folder / "config.json", quantization_config=settings)
    return folder


@pytest.mark.parametrize("form", ["grouped", "bitsandbytes"])
def test_matrices_that_a_quantizer_has_turned_are_turned_back(form, tmp_path):
    test = importlib.import_module(f"tests.checkpoint.formats.test_{form}")
    pack, settings = (test.gptq(), test.settings()) if form == "grouped" else test.PACKS["NF4"]
    base = tiny_gpt2(tmp_path / "base")
    child = quantized_gpt2(base, tmp_path / "child", pack, settings)
    other = quantized_gpt2(tiny_gpt2(tmp_path / "plain", seed=5), tmp_path / "other", pack, settings)
    repo = RepoRef("org/model", child)
    found, plain = (headers(one).checkpoint for one in (repo, RepoRef("org/base", base)))
    for name in ("h.0.attn.c_proj.weight", "h.1.mlp.c_fc.weight", "h.0.attn.c_attn.weight"):
        assert found.tensors[name].shape == plain.tensors[name].shape
        np.testing.assert_allclose(found.read(name), plain.read(name), atol=0.2)
    verdicts = [compare(str(base), str(one), Options(seed=0)).rows[0].verdict.code for one in (child, other)]
    assert verdicts == ["inherited", "unrelated"]


def test_the_hint_keeps_what_was_typed_and_the_foreign_form_is_asked_once(tmp_path, monkeypatch):
    """A whole command would drop the base that was named; nothing beside the weights is nothing to say."""
    assert read_headers(read_config(resolve(str(tiny_llama(tmp_path / "plain"))))).notes == ()
    edit_json(tiny_llama(tmp_path / "model") / "config.json", architectures=["OursForCausalLM"], model_type="ours")
    (row,) = compare(tiny_llama(tmp_path / "base"), tmp_path / "model").rows
    assert "add `--as LlamaForCausalLM` or `--as GemmaForCausalLM` to read it as one of them" in row.verdict.reason
    assert "hf-lineage check" not in row.verdict.reason
    asked = []

    def noted(repo):
        asked.append(repo.name)
        return foreign_model(repo)

    for module in ("source.config", "checkpoint.weight_files"):
        monkeypatch.setattr(f"hf_lineage.{module}.foreign_model", noted)
    base, child = tiny_llama(tmp_path / "base"), fine_tuned(tmp_path / "base", tmp_path / "child")
    (row,) = compare(base, child).rows
    assert (row.verdict.code, asked) == ("inherited", [str(base), str(child)])
