"""Tensors that are stored beside those of the class: what transformers computes with them stands beside the verdict."""

import shutil

import pytest
import torch
import transformers

from hf_lineage import Options, compare, extract
from hf_lineage.architecture import class_tensors
from hf_lineage.evidence import evaluate
from hf_lineage.evidence.criteria import Criteria
from tests.checkpoint.formats.test_compressed_tensors import INT, compressed, settings
from tests.conformance.models import tiny_model
from tests.models import spoil, tiny_llama
from tests.quantizing import BASE, repacked

TOKENS = torch.arange(3, 11)[None]


def logits(folder, auto):
    with torch.no_grad():
        return auto.from_pretrained(folder).eval()(TOKENS).logits


@pytest.fixture
def mbart(tmp_path):
    base = tmp_path / "base"
    torch.manual_seed(0)
    tiny_model("MBartForCausalLM", {}).save_pretrained(base)
    return spoil(base, lambda tensors: [bias.zero_() for name, bias in tensors.items() if name.endswith(".fc1.bias")])


def forged(base, folder, noise=0):
    """A copy of which every second name of the decoder's MLP norms is 0; its MLPs are noise if that is asked for."""
    shutil.copytree(base, folder)
    generator = torch.Generator().manual_seed(noise)

    def write(tensors):
        for name in [name for name in tensors if "model.decoder" in name and ".final_layer_norm." in name]:
            tensors[name.removeprefix("model.")] = torch.zeros_like(tensors[name])
        for name in [name for name in tensors if ".fc" in name and "decoder" in name and name.endswith("weight")]:
            if noise:
                tensors[name] = torch.randn(tensors[name].shape, generator=generator)

    spoil(folder, write)
    return folder


def test_a_second_name_with_which_the_loader_replaces_a_norm_verifies_nothing(mbart, tmp_path, monkeypatch):
    copy, noise = forged(mbart, tmp_path / "copy"), forged(mbart, tmp_path / "noise", noise=1)
    auto = transformers.MBartForCausalLM
    assert torch.equal(logits(copy, auto), logits(noise, auto)), "the MLPs of the decoder do not reach the output"
    assert not torch.allclose(logits(copy, auto), logits(mbart, auto))
    (row,) = compare(str(mbart), str(copy)).rows
    assert (row.verdict.code, row.verdict.verified) == ("unused", False)
    assert (
        "such as decoder.layers.0.final_layer_norm.bias, are not among those that the class saves" in row.verdict.reason
    )
    monkeypatch.setattr(class_tensors, "_unknown", lambda *_: ())
    (row,) = compare(str(mbart), str(copy)).rows
    assert row.verdict.verified


def test_what_the_base_has_bit_for_bit_or_every_loader_makes_is_accounted_for_and_changes_are_not(tmp_path):
    base = tiny_llama(tmp_path / "base")
    spoil(base, lambda tensors: tensors.update({"another.weight": torch.ones(3, 4)}))
    zeros = {"model.layers.0.mlp.up_proj.bias": torch.zeros(7), "table": torch.arange(5)}
    copy, changed = (shutil.copytree(base, tmp_path / name) for name in ("copy", "changed"))
    spoil(copy, lambda tensors: tensors.update(zeros))
    spoil(changed, lambda tensors: tensors.update({"another.weight": torch.full((3, 4), 1.5)}))
    verdicts = [compare(str(base), str(folder)).rows[0].verdict for folder in (copy, changed)]
    assert [verdict.verified for verdict in verdicts] == [True, False]
    assert "1 stored tensors, such as another.weight, are not among" in verdicts[1].reason
    assert not evaluate.judge_signatures(extract(str(base)), extract(str(changed)), Criteria(paths=("mlp",))).verified


EIGHT = {"num_bits": 8, "strategy": "channel"}


@pytest.mark.parametrize(("scale", "code"), [(0.05, "changed"), (1e-12, "unused")])
def test_inputs_that_are_cut_off_verify_nothing_and_strict_names_every_scale_of_inputs(scale, code, tmp_path):
    def pack(matrix):
        return compressed(INT, **EIGHT)(matrix) | {".input_scale": torch.tensor([scale])}

    folder = repacked(BASE, tmp_path / "w8a8", pack, **settings(INT, **EIGHT))
    (row,) = compare(str(BASE), str(folder), Options(strict=True)).rows
    assert (row.verdict.code, row.verdict.verified) == (code, False)
    assert ("down_proj.input_scale, are not among those that the class saves" in row.verdict.reason) is (
        code == "unused"
    )
    assert not row.verdict.strict.holds
    assert len([name for name in row.verdict.strict.added if name.endswith(".input_scale")]) == 42
