"""FP8 and its scales: decoded as compressed-tensors and transformers do, for every kind of block."""

import math

import numpy as np
import pytest
import torch

from hf_lineage.checkpoint.stored import Memory
from hf_lineage.errors import CheckpointError
from tests.checkpoint.formats.test_fp4_matrix import gpt_oss
from tests.long import first_of
from tests.models import edit_json, spoil
from tests.quantizing import BASE, decoded, judged, matrices, opened, refused, repacked, verdict

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
FP8 = {"quant_method": "fp8"}


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


PACKS = {
    "per tensor": (whole, FP8),
    "per tensor, two dimensions": (blocks(0, 0), FP8),
    "per row": (blocks(1, 0, end=".weight_scale"), {"quant_method": "fbgemm_fp8"}),
    "per row, E5M2": (blocks(1, 0, E5M2), FP8),
    "blocks": (blocks(16, 32), {**FP8, "weight_block_size": [16, 32]}),
    "blocks with ragged edges": (blocks(40, 56), {**FP8, "weight_block_size": [40, 56]}),
    "MXFP8": (blocks(1, 32, powers=torch.uint8), {"quant_method": "mxfp8"}),
    "MXFP8, E8M0": (blocks(1, 32, powers=torch.float8_e8m0fnu), {**FP8, "weight_block_size": [1, 32]}),
}


def dequantized(parts):
    """As transformers does it."""
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    scales = next(part for end, part in parts.items() if end.startswith(".weight_scale"))
    scales = scales.reshape(1, 1) if scales.numel() == 1 else scales
    return Fp8Dequantize(None)._dequantize_one(parts[".weight"], scales, torch.float32)


@pytest.mark.parametrize("name", [name for name in PACKS if "ragged" not in name])
def test_decoded_matrices_are_those_of_transformers(name, tmp_path):
    pack, settings = PACKS[name]
    stored = decoded(repacked(BASE, tmp_path / "model", pack, **settings))
    for module, matrix in matrices(BASE).items():
        np.testing.assert_array_equal(stored[module], dequantized(pack(matrix)).numpy(), strict=True)


def test_blocks_with_ragged_edges_are_decoded_as_compressed_tensors_does(tmp_path):
    from compressed_tensors.entrypoints.convert.converters import FP8BlockDequantizer

    pack, settings = PACKS["blocks with ragged edges"]
    library = FP8BlockDequantizer(weight_block_size=(40, 56), dtype=torch.float32)
    stored = decoded(repacked(BASE, tmp_path / "model", pack, **settings))
    for module, matrix in matrices(BASE).items():
        parts = pack(matrix)
        expected = library._create_dequantized_weight(parts[".weight"], parts[".weight_scale_inv"])
        np.testing.assert_array_equal(stored[module], expected.numpy(), strict=True)


@pytest.mark.parametrize("name", first_of(list(PACKS)))
def test_a_quantized_copy_is_related_and_an_independent_model_is_not(name, tmp_path):
    pack, settings = PACKS[name]
    score, other = judged(tmp_path, pack, **settings)
    assert score > 0.99
    assert other == "UNRELATED"


UP = "model.layers.0.mlp.up_proj"
DAMAGE = {
    "no scale": (lambda t: t.pop(f"{UP}.weight_scale_inv"), f"{UP}.weight is stored as F8_E4M3 without its scales"),
    "too few scales": (
        lambda t: t.update({f"{UP}.weight_scale_inv": torch.ones(3, 3)}),
        "has shape (3, 3), which does not fit the blocks of a matrix of (256, 96) that config.json "
        "(`weight_block_size`: [16, 3",
    ),
    "scales that are no numbers": (
        lambda t: t.update({f"{UP}.weight_scale_inv": torch.full((16, 3), math.nan)}),
        f"{UP}.weight_scale_inv holds scales that are not finite; the weights are damaged",
    ),
    "scales as integers": (
        lambda t: t.update({f"{UP}.weight_scale_inv": torch.ones(16, 3, dtype=torch.int32)}),
        f"{UP}.weight_scale_inv is stored as I32, but its format needs",
    ),
    "a weight that is no matrix": (
        lambda t: t.update({f"{UP}.weight": t[f"{UP}.weight"].reshape(-1)}),
        f"{UP}.weight has shape (24576,), which is not the shape of a matrix",
    ),
}


@pytest.mark.parametrize(("change", "message"), DAMAGE.values(), ids=DAMAGE)
def test_what_does_not_fit_is_one_clear_line(change, message, tmp_path):
    pack, settings = PACKS["blocks"]
    said = refused(spoil(repacked(BASE, tmp_path / "model", pack, **settings), change))
    assert said.startswith("CheckpointError: org/model: model.layers.0") or "scales that are not finite" in said
    assert message in said


@pytest.mark.parametrize("size", [None, [16], [0, 32], ["16", "32"], 16, [True, 32], [[16], 32], [10**9, 10**9]])
def test_a_block_size_that_is_none_is_one_clear_line(size, tmp_path):
    pack, settings = PACKS["blocks"]
    said = refused(repacked(BASE, tmp_path / "model", pack, **settings | {"weight_block_size": size}))
    assert "which does not fit the blocks of a matrix of" in said


def test_two_numbers_of_four_bits_to_a_byte_are_decoded_as_transformers_does(tmp_path):
    """So are the experts of DeepSeek's fourth version."""

    def pack(matrix):
        random = torch.Generator().manual_seed(0)
        packed = torch.randint(-128, 128, (len(matrix), matrix.shape[1] // 2), dtype=torch.int8, generator=random)
        powers = torch.randint(117, 127, (len(matrix), matrix.shape[1] // 32), dtype=torch.uint8, generator=random)
        return {".weight": packed, ".weight_scale_inv": powers.view(torch.float8_e8m0fnu)}

    stored = decoded(repacked(BASE, tmp_path / "model", pack, **FP8))
    for module, matrix in matrices(BASE).items():
        np.testing.assert_array_equal(stored[module], dequantized(pack(matrix)).numpy(), strict=True)


SIZE = (16, 32)
STACK = "model.layers.0.mlp.experts.gate_up_proj"


def stacked(folder, seed, size=SIZE):
    """A mixture of experts, the stacks of which are stored in blocks of FP8."""

    def pack(tensors):
        for name in [name for name in tensors if name.endswith("_proj") and ".experts." in name]:
            parts = [blocks(*size)(one.float()) for one in tensors.pop(name)]
            tensors[name] = torch.stack([part[".weight"] for part in parts])
            scales = torch.stack([part[".weight_scale_inv"] for part in parts])
            tensors[f"{name}_scale_inv"] = scales if size != (0, 0) else scales.reshape(len(scales))

    spoil(gpt_oss(folder, seed), pack)
    edit_json(folder / "config.json", quantization_config=FP8 | {"weight_block_size": list(SIZE)})
    return folder


@pytest.mark.parametrize("size", [SIZE, (0, 0)], ids=["blocks", "one scale for each expert"])
def test_a_stack_of_experts_is_decoded_as_transformers_does(size, tmp_path):
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    checkpoint = opened(stacked(tmp_path / "model", 0, size))
    plain = opened(gpt_oss(tmp_path / "plain", 0))
    assert checkpoint.shapes == plain.shapes
    parts = [
        torch.from_numpy(checkpoint.stored[f"{STACK}{end}"].read(Memory()).astype("f4")) for end in ("", "_scale_inv")
    ]
    scales = parts[1] if size == SIZE else parts[1].reshape(-1, 1, 1)
    expected = Fp8Dequantize(None)._dequantize_one(parts[0], scales, torch.float32)
    np.testing.assert_array_equal(checkpoint.read(STACK), expected.numpy())


def test_a_quantized_stack_is_related_and_an_independent_one_is_not(tmp_path):
    base = gpt_oss(tmp_path / "base", 0)
    assert verdict(base, stacked(tmp_path / "child", 0)).name == "RELATED"
    assert verdict(base, stacked(tmp_path / "other", 1)).name == "UNRELATED"


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        (torch.ones(3, 2, 1), "which do not fit stacked experts; download the weights again"),
        (torch.ones(()), "which do not fit stacked experts; download the weights again"),
        (torch.full((4,), torch.nan), f"{STACK}_scale_inv holds scales that are not finite"),
        (torch.ones(4, 3, 7), f"{STACK}_scale_inv has shape (3, 7), which does not fit the blocks of a matrix"),
    ],
)
def test_scales_that_do_not_fit_a_stack_are_one_clear_line(scales, message, tmp_path):
    folder = spoil(stacked(tmp_path / "model", 0), lambda tensors: tensors.update({f"{STACK}_scale_inv": scales}))
    with pytest.raises(CheckpointError) as caught:
        opened(folder).read(STACK)
    assert message in str(caught.value)
