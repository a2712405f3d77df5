"""Matrices of a model beside those of its parents, in files: layers found again, some rows read, formats known."""

import pytest
import torch

from hf_lineage.checking.merge import read_matrices
from hf_lineage.evidence.blend import Made, blend_of
from hf_lineage.signature.sample import Sample
from hf_lineage.source import rows as reading
from hf_lineage.source.locate import located
from hf_lineage.source.model import open_model
from hf_lineage.source.options import Options
from tests import gguf_models
from tests.blends import BASE, A, B, blended
from tests.checkpoint.formats import test_gptq as gptq
from tests.models import EXAMPLES
from tests.quantizing import repacked

OPTIONS = Options(local_hub=EXAMPLES, seed=0)


def opened(name):
    return open_model(located(str(name), OPTIONS), OPTIONS)


def blend(model, *parents, sampled=False):
    one = opened(model)
    found = read_matrices([opened(parent) for parent in parents], one, range(one.layers), Sample(0), sampled)
    return blend_of(found, len(parents), one.layers)


def values(found):
    return [share.value for share in found.shares.parents]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.few(1)
def test_57_and_43_percent_come_back_within_a_hundredth(tmp_path, dtype):
    found = blend(blended(tmp_path / "x", {BASE: 0.43, B: 0.57}, dtype), BASE, B)
    assert values(found) == pytest.approx([0.43, 0.57], abs=0.001)
    assert found.pure
    assert {*found.made} == {Made.BLEND}


def test_three_parents_come_back_as_well_and_two_from_numbers_of_four_bits_within_a_twentieth(tmp_path):
    found = blend(blended(tmp_path / "x", {BASE: 0.4, A: 0.35, B: 0.25}), BASE, A, B)
    assert values(found) == pytest.approx([0.4, 0.35, 0.25], abs=0.001)
    assert found.made == (Made.BLEND,) * 3
    found = blend(blended(tmp_path / "y", {BASE: 0.43, B: 0.57}, bits=4), BASE, B)
    assert values(found) == pytest.approx([0.43, 0.57], abs=0.05)
    assert found.made[1] is Made.HIDDEN


FILES = {
    "GGUF": lambda model, folder: (
        gguf_models.write(model, folder / "model-Q4_0.gguf", kind=gguf_models.KINDS.Q4_0).parent
    ),
    "GPTQ": lambda model, folder: repacked(model, folder / "gptq", gptq.gptq(), **gptq.settings()),
    "AWQ": lambda model, folder: repacked(model, folder / "awq", gptq.awq(), **gptq.AWQ),
}


PARTS = {"": (0.57, 0.57), "self_attn": (0.57, 0), "layers.1.": (0.57 / 6, 0.57 / 6)}
"""Which tensors are blended, and what of attention and of MLP comes from the second parent."""


@pytest.mark.parametrize("stored", FILES.values(), ids=FILES)
@pytest.mark.parametrize("part", PARTS, ids=["all", "attention", "a layer"])
@pytest.mark.few(1)
def test_from_files_of_four_bits_shares_come_back_within_a_twentieth(tmp_path, stored, part):
    model = blended(tmp_path / "x", {BASE: 0.43, B: 0.57}, part=part)
    found = blend(stored(model, tmp_path / "q"), BASE, B)
    by_branch = [found.by_branch[branch].parents[1].value for branch in ("attention", "mlp")]
    assert by_branch == pytest.approx(PARTS[part], abs=0.05)
    layers = found.shares.parents[1].layers
    assert (layers[1][0] > layers[0][0] + 0.4) is (part == "layers.1.")
    assert {*found.made} <= {Made.HIDDEN, Made.ASIDE}, "four bits hide whether it is a blend or a relative"


def test_a_blend_by_attention_alone_shows_branch_by_branch_and_whole_matrices_are_pieces(tmp_path):
    found = blend(blended(tmp_path / "x", {BASE: 0.43, B: 0.57}, part="self_attn"), BASE, B)
    by_branch = {branch: shares.parents[1].value for branch, shares in found.by_branch.items()}
    assert by_branch == {"attention": pytest.approx(0.57, abs=0.001), "mlp": pytest.approx(0, abs=0.001)}
    assert found.made[1] is Made.BLEND
    assert blend(blended(tmp_path / "y", {BASE: 0.0, B: 1.0}, part="self_attn"), BASE, B).made[1] is Made.PIECES


def test_of_large_matrices_some_rows_are_read_and_other_shapes_or_another_descent_have_no_share(tmp_path, monkeypatch):
    model = blended(tmp_path / "x", {BASE: 0.43, B: 0.57})
    found = blend(model, BASE, B, "otter/llama-independent", "acme/gpt2-base")
    assert [isinstance(share, str) for share in found.shares.parents] == [False, False, True, True]
    monkeypatch.setattr(reading, "LARGE", 1000)
    assert values(blend(model, BASE, B)) == pytest.approx([0.43, 0.57], abs=0.005)


@pytest.mark.long
def test_no_two_of_the_example_models_are_called_parents_of_a_third():
    names = (BASE, A, B, "fern/llama-lora-merged", "moss/llama-continued", "heron/llama-int8-rounded")
    called = [
        (model, base, other)
        for model in names
        for base in names[:2]
        for other in names[2:]
        if len({model, base, other}) == 3 and {*blend(model, base, other).made} & {Made.BLEND}
    ]
    assert called == []
