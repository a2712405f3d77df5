"""FP8 and four-bit floats: decoded as compressed-tensors and transformers do, for every kind of block."""

import functools
import math
import re
from typing import Any

import numpy as np
import pytest
import torch

from hf_lineage.architecture.class_tensors import Place
from hf_lineage.checkpoint.tensor import Memory
from hf_lineage.errors import CheckpointError
from tests.conformance.models import tiny_model
from tests.models import edit_json, spoil
from tests.quantizing import assert_decoded, opened, put, verdict

LEVELS = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
FP8, SIZE = {"quant_method": "fp8"}, (16, 32)
UP, DOWN = "model.layers.0.mlp.up_proj", "model.layers.0.mlp.experts.down_proj"
SCALES, NOT_FINITE = f"{UP}.weight_scale_inv", "holds scales that are not finite"
NO_BLOCKS_OF = "has shape (3, 3), which does not fit the blocks of a matrix of (256, 96) that config.json "
NO_STACK = "which do not fit stacked experts; have the weights saved again"
NO_BLOCKS = "has shape {}, which does not fit experts in blocks of 32"
DAMAGE: list[Any] = [
    (SCALES, None, f"{UP}.weight is stored as F8_E4M3 without its scales"),
    (SCALES, torch.ones(3, 3), f"{NO_BLOCKS_OF}(`weight_block_size`: [16, 3"),
    (SCALES, torch.full((16, 3), math.nan), f"{SCALES} {NOT_FINITE}; the weights"),
    (SCALES, torch.ones(16, 3).int(), f"{SCALES} is stored as I32, but its format needs"),
    (f"{UP}.weight", torch.zeros(9).to(E4M3), f"{UP}.weight has shape (9,), which is not the shape"),
]
SIZES = (None, [16], [0, 32], ["16", "32"], 16, [True, 32], [[16], 32], [10**9, 10**9])
NO_SIZE = "which does not fit the blocks of a matrix of"


def rounded(numbers):
    nearest = (numbers.abs()[..., None] - LEVELS).abs().argmin(dim=-1)
    return LEVELS[nearest] * numbers.sign()


def nvfp4(matrix):
    from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8

    whole = matrix.abs().amax() / (448 * 6)
    cells = matrix.reshape(len(matrix), -1, 16)
    scales = (cells.abs().amax(dim=2) / 6 / whole).to(torch.float8_e4m3fn)
    numbers = rounded(cells / (scales.float() * whole).clamp(min=1e-9)[..., None]).reshape(matrix.shape)
    stored = {".weight": pack_fp4_to_uint8(numbers), ".weight_scale": scales}
    return stored | {".weight_scale_2": whole.reshape(()), ".input_scale": torch.tensor(1.0)}


def test_nvfp4_of_modelopt_is_decoded_by_both_of_its_scales(tmp_path):
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8

    def expected(matrix):
        parts = nvfp4(matrix)
        packed, scales = parts[".weight"], parts[".weight_scale"].float() * parts[".weight_scale_2"]
        numbers = unpack_fp4_from_uint8(packed, len(packed), 2 * packed.shape[1], torch.float32)
        return numbers * scales.repeat_interleave(16, 1)

    assert_decoded(tmp_path / "model", nvfp4, MODELOPT, expected)


@functools.cache
def trained(seed):
    """A small model of the class of gpt-oss: four experts of 64 by 96 in each of its two layers, (experts, in, out)."""
    model = tiny_model("GptOssForCausalLM", {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16})
    random = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        drawn = torch.randn(parameter.shape, generator=random) / parameter.shape[-1] ** 0.5
        constant = torch.full(parameter.shape, float(name.endswith("norm.weight")))
        parameter.data = drawn if parameter.ndim > 1 else constant
    return model.bfloat16()


def gpt_oss(folder, seed, change=lambda tensors: None, **settings):
    """The same on the disk, and what is made of its tensors."""
    trained(seed).save_pretrained(folder)
    edit_json(folder / "config.json", quantization_config=settings or None)
    return spoil(folder, change)


def blocks_of_four_bits(stack):
    """Blocks of 32 inputs and their powers of two, as the release stores a stack (experts, in, out)."""
    from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8

    rows = stack.float().mT.contiguous()
    cells = rows.reshape(*rows.shape[:2], -1, 32)
    powers = torch.floor(torch.log2(cells.abs().amax(dim=3).clamp(min=1e-9))) - 2
    numbers = rounded((cells / torch.exp2(powers)[..., None]).clamp(-6, 6))
    packed = pack_fp4_to_uint8(numbers.reshape(-1, 32)).reshape(*cells.shape[:3], 16)
    return packed, (powers + 127).to(torch.uint8)


def in_four_bits(folder, seed):
    def change(tensors):
        for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
            tensors[f"{name}_blocks"], tensors[f"{name}_scales"] = blocks_of_four_bits(tensors.pop(name))

    return gpt_oss(folder, seed, change, quant_method="mxfp4")


def test_the_experts_of_gpt_oss_are_those_of_transformers(tmp_path):
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    plain, checkpoint = opened(gpt_oss(tmp_path / "plain", 0)), opened(in_four_bits(tmp_path / "model", 0))
    for name, info in plain.tensors.items():
        assert checkpoint.tensors[name].shape == info.shape
        if "experts" in name and "bias" not in name:
            stack = torch.from_numpy(plain.read(name).astype(np.float32))
            expected = convert_moe_packed_tensors(*blocks_of_four_bits(stack)).float().numpy()
            np.testing.assert_array_equal(checkpoint.read(name).astype(np.float32), expected)
            assert checkpoint.read(name).dtype.name == "bfloat16"


def blocks(height, width, dtype=E4M3, end=".weight_scale_inv", powers=None):
    """A packing with a scale for each block of this size; 0 stands for all rows or columns."""

    def pack(matrix):
        rows, columns = matrix.shape
        tall, wide = height or rows, width or columns
        padded = torch.zeros(math.ceil(rows / tall) * tall, math.ceil(columns / wide) * wide)
        padded[:rows, :columns] = matrix
        cells = padded.reshape(len(padded) // tall, tall, -1, wide)
        scales = cells.abs().amax(dim=(1, 3)) / torch.finfo(dtype).max
        stored = scales
        if powers is not None:
            exponents = torch.log2(scales).ceil()
            scales, stored = torch.exp2(exponents), (exponents + 127).to(torch.uint8).view(powers)
        packed = (cells / scales[:, None, :, None]).reshape(padded.shape)[:rows, :columns].to(dtype)
        return {".weight": packed, end: stored}

    return pack


def whole(matrix):
    """One scale without dimensions, and that of the activations beside it."""
    packed = blocks(0, 0, end=".weight_scale")(matrix)
    return {**packed, ".weight_scale": packed[".weight_scale"].reshape(()), ".input_scale": torch.tensor(0.1)}


def pairs(matrix):
    """Two numbers of four bits to a byte, as in the experts of DeepSeek's fourth version."""
    random, (rows, columns) = torch.Generator().manual_seed(0), matrix.shape
    packed = torch.randint(-128, 128, (rows, columns // 2), dtype=torch.int8, generator=random)
    powers = torch.randint(117, 127, (rows, columns // 32), dtype=torch.uint8, generator=random)
    return {".weight": packed, ".weight_scale_inv": powers.view(torch.float8_e8m0fnu)}


PACKS = {
    "FP4": (pairs, FP8),
    "per tensor": (whole, FP8),
    "per tensor, two dimensions": (blocks(0, 0), FP8),
    "per row": (blocks(1, 0, end=".weight_scale"), {"quant_method": "fbgemm_fp8"}),
    "per row, E5M2": (blocks(1, 0, E5M2), FP8),
    "blocks": (blocks(*SIZE), {**FP8, "weight_block_size": [*SIZE]}),
    "blocks with ragged edges": (blocks(40, 56), {**FP8, "weight_block_size": [40, 56]}),
    "MXFP8": (blocks(1, 32, powers=torch.uint8), {"quant_method": "mxfp8"}),
    "MXFP8, E8M0": (blocks(1, 32, powers=torch.float8_e8m0fnu), {**FP8, "weight_block_size": [1, 32]}),
}


def dequantized(parts):
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    scales = next(part for end, part in parts.items() if end.startswith(".weight_scale"))
    scales = scales.reshape(1, 1) if scales.numel() == 1 else scales
    return Fp8Dequantize(None)._dequantize_one(parts[".weight"], scales, torch.float32)


@pytest.mark.parametrize("name", PACKS)
def test_decoded_matrices_are_those_of_transformers(name, tmp_path):
    """Where blocks have ragged edges, those of compressed-tensors, as transformers does not decode such ones."""
    from compressed_tensors.entrypoints.convert.converters import FP8BlockDequantizer

    pack, settings = PACKS[name]
    library = FP8BlockDequantizer(weight_block_size=(40, 56), dtype=torch.float32)
    decode = (lambda parts: library._create_dequantized_weight(*parts.values())) if "ragged" in name else dequantized
    assert_decoded(tmp_path / "model", pack, settings, lambda matrix: decode(pack(matrix)))


DAMAGED = [(*PACKS["blocks"], *row) for row in DAMAGE]
DAMAGED += [(blocks(*SIZE), FP8 | {"weight_block_size": size}, "", None, NO_SIZE) for size in SIZES]


def stacked(folder, seed, size=SIZE):
    def pack(tensors):
        for name in [name for name in tensors if name.endswith("_proj") and ".experts." in name]:
            parts = [blocks(*size)(one.float()) for one in tensors.pop(name)]
            tensors[name] = torch.stack([part[".weight"] for part in parts])
            scales = torch.stack([part[".weight_scale_inv"] for part in parts])
            tensors[f"{name}_scale_inv"] = scales if size != (0, 0) else scales.reshape(len(scales))

    return gpt_oss(folder, seed, pack, **FP8, weight_block_size=list(SIZE))


@pytest.mark.parametrize("size", [SIZE, (0, 0)], ids=["blocks", "one scale for each expert"])
def test_a_stack_of_experts_is_decoded_as_transformers_does(size, tmp_path):
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    checkpoint, plain = opened(stacked(tmp_path / "model", 0, size)), opened(gpt_oss(tmp_path / "plain", 0))
    assert checkpoint.shapes == plain.shapes
    stack = "model.layers.0.mlp.experts.gate_up_proj"
    stored = (checkpoint.stored[f"{stack}{end}"].read(Memory()) for end in ("", "_scale_inv"))
    weights, scales = (torch.from_numpy(part.astype("f4")) for part in stored)
    scales = scales if size == SIZE else scales.reshape(-1, 1, 1)
    expected = Fp8Dequantize(None)._dequantize_one(weights, scales, torch.float32)
    np.testing.assert_array_equal(checkpoint.read(stack), expected.numpy())
    one = checkpoint.with_places({"one": Place((stack,), slice(8, 16), 2)})
    np.testing.assert_array_equal(one.read("one"), expected[2, 8:16].numpy())
    assert [part.shape[0] for part in one.parts(["one"]).values()] == [1, 1]  # no other expert is read


@pytest.mark.parametrize("form", [in_four_bits, stacked])
def test_quantized_experts_are_related_to_the_trained_ones_and_others_are_not(form, tmp_path):
    base = gpt_oss(tmp_path / "base", 0)
    outcome = verdict(base, form(tmp_path / "child", 0))
    assert outcome.code == "inherited"
    assert outcome.evidence["mlp"].comparison.score > 0.9
    assert verdict(base, form(tmp_path / "other", 1)).code == "unrelated"


STACK_DAMAGE: list[Any] = [
    (in_four_bits, "_scales", None, f"{DOWN}_scales is missing, and {DOWN}_blocks cannot be decoded"),
    (in_four_bits, "_scales", torch.zeros(4, 64, 2).byte(), f"{DOWN}_scales has shape (4, 64, 2), but the rest"),
    (in_four_bits, "_scales", torch.full((4, 64, 3), 255).byte(), f"{DOWN}_scales {NOT_FINITE}"),
    (in_four_bits, "_blocks", torch.zeros(4, 64, 48).byte(), NO_BLOCKS.format((4, 64, 48))),
    (in_four_bits, "_blocks", torch.zeros(4, 64, 3, 8).byte(), NO_BLOCKS.format((4, 64, 3, 8))),
    (stacked, "_scale_inv", torch.ones(3, 2, 1), NO_STACK),
    (stacked, "_scale_inv", torch.ones(()), NO_STACK),
    (stacked, "_scale_inv", torch.full((4,), torch.nan), f"{DOWN}_scale_inv {NOT_FINITE}"),
    (stacked, "_scale_inv", torch.ones(4, 3, 7), f"{DOWN}_scale_inv has shape (3, 7), which does not fit the bl"),
]


@pytest.mark.parametrize(("form", "end", "part", "message"), STACK_DAMAGE)
def test_what_does_not_fit_a_stack_is_one_clear_line(form, end, part, message, tmp_path):
    folder = spoil(form(tmp_path / "model", 0), put(f"{DOWN}{end}", part))
    with pytest.raises(CheckpointError, match=re.escape(message)):
        opened(folder).read(DOWN)
