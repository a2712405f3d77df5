"""What a branch writes is known from a few of its heads, or of its hidden units, however its matrices are stored."""

import itertools

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_lineage.checking.api import extract
from hf_lineage.checking.options import Options
from hf_lineage.checking.source.lazy_signature import stream_of
from hf_lineage.checking.source.opening import headers
from hf_lineage.hub.reference import resolve
from hf_lineage.signature.stream.drawn_parts import Draw
from tests.decoys import made
from tests.models import WEIGHTS, tiny_llama
from tests.quantizing import repacked
from tests.signature.stream.test_scale import DEEPSEEK, GPT2, LLAMA, MIXTRAL, scaled, streams


@pytest.mark.parametrize(
    "name", [LLAMA, GPT2, DEEPSEEK, "FalconForCausalLM", "GPTBigCodeForCausalLM", "Phi3ForCausalLM"]
)
def test_what_attention_writes_is_estimated_within_a_small_factor(name, tmp_path):
    """Against the norm over all heads of what the whole matrices write, whichever way they are packed and stored."""
    folder = made(name, {}, tmp_path).a
    exact = extract(str(folder), Options(paths=("value_output",))).paths["value_output"].writes
    _, beside = streams(folder)
    assert 1 / 3 < beside / exact[1] < 3


@pytest.mark.parametrize("name", [LLAMA, GPT2, "FalconForCausalLM"])
def test_what_an_mlp_writes_is_estimated_within_one_order(name, tmp_path):
    folder = made(name, {}, tmp_path).a
    exact = extract(str(folder)).paths["mlp"].writes
    _, beside = streams(folder, path="value_output")
    assert 0.3 < beside / exact[1] < 30


@pytest.mark.parametrize("width", [64, 256, 1024])
def test_of_a_layer_a_small_part_is_read_however_narrow_it_is_and_no_row_twice(width, tmp_path):
    model = headers(resolve(str(tiny_llama(tmp_path, layers=1, width=width))))
    draw = Draw(model.checkpoint, model.layout, seed=3)
    (attention,) = model.layout.branches["attention"][0]
    spans = sorted((piece.start, piece.start + piece.size) for piece in draw.stored(attention))
    assert all(stop <= start for (_, stop), (start, _) in itertools.pairwise(spans))
    assert 0 < sum(stop - start for start, stop in spans) < 0.03 * 12 * width**2 * 4  # of attention and a usual MLP


def test_all_heads_of_a_few_are_drawn_and_of_many_any(tmp_path):
    model = headers(resolve(str(tiny_llama(tmp_path))))
    draws = [Draw(model.checkpoint, model.layout, seed) for seed in range(99)]
    assert {run.start for run in draws[0].runs("heads", 4, 1)} == set(range(4))
    assert {run.start for draw in draws for run in draw.runs("heads", 10, 1)} == set(range(10))


def test_matrices_that_have_to_be_decoded_are_read_of_a_few_layers_both_or_none(tmp_path):
    def eight_bits(matrix):
        size = matrix.abs().amax(dim=1)
        return {".weight": (matrix / size[:, None] * 127).round().to(torch.int8), ".SCB": size}

    plain = tiny_llama(tmp_path / "plain", layers=64, width=16)
    settings = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    model = headers(resolve(str(repacked(plain, tmp_path / "packed", eight_bits, **settings))))
    draw = Draw(model.checkpoint, model.layout, seed=3)
    sets = [layer_set for (layer_set,) in model.layout.branches["attention"]]
    assert {len([part for part in draw.stored(one) if part.dtype == "I8"]) for one in sets} == {0, 2}
    assert 0 < sum(draw.written(one) > 0 for one in sets) < 64 / 4


def test_of_experts_one_is_read_and_other_seeds_read_another(tmp_path):
    folder = made(MIXTRAL, {}, tmp_path).a
    model = headers(resolve(str(folder)))
    _, *others = [stream_of(model, seed).joins("value_output", (1,))[0, 1] for seed in range(9)]
    assert all(size > 0 for size in others)
    assert len(set(others)) > 1


def test_heads_that_carry_nothing_write_nothing_however_large_their_writers_are(tmp_path):
    folder = made(LLAMA, {"num_key_value_heads": 4}, tmp_path).a
    before = streams(folder)[1]
    tensors = load_file(folder / WEIGHTS)
    for name, matrix in tensors.items():
        if name.endswith("v_proj.weight"):
            tensors[name] = torch.cat([matrix[: len(matrix) // 2], torch.zeros_like(matrix[len(matrix) // 2 :])])
        if name.endswith("o_proj.weight"):
            tensors[name] = torch.cat([matrix[:, : matrix.shape[1] // 2], matrix[:, matrix.shape[1] // 2 :] * 1e20], 1)
    save_file(tensors, folder / WEIGHTS)
    assert streams(folder)[1] < 2 * before


@pytest.mark.parametrize(
    ("name", "output", "loud"),
    [("DINOv3ViTModel", "attention.o_proj", True), ("Gemma2ForCausalLM", "self_attn.o_proj", False)],
)
def test_a_norm_on_the_output_takes_its_size_away_and_a_layer_scale_does_not(name, output, loud, tmp_path):
    folder = made(name, {}, tmp_path).a
    before = streams(folder)[1]
    assert (streams(scaled(folder, output, 1e4))[1] > 1e3 * before) == loud
