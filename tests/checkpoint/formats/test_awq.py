"""AWQ: written as AutoAWQ packs it, decoded as compressed-tensors converts and decompresses it."""

from typing import Any

import pytest
import torch

from tests.checkpoint.formats.test_gptq import quantized
from tests.quantizing import assert_decoded, put_beside, refused

GROUP = 32
AWQ: dict[str, Any] = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True}
ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def packed_columns(integers):
    """The loop of AutoAWQ's `from_linear`: eight columns into one of words."""
    words = torch.zeros(len(integers), integers.shape[1] // 8, dtype=torch.int32)
    for column in range(words.shape[1]):
        for place in range(8):
            words[:, column] |= integers[:, column * 8 + ORDER[place]] << (place * 4)
    return words


def awq(symmetric=False, group=GROUP):
    def pack(matrix):
        size = matrix.shape[1] if group == -1 else group
        integers, scales, zeros, _ = quantized(matrix, 4, size, symmetric, order=False)
        stored = {".qweight": packed_columns(integers), ".qzeros": packed_columns(zeros), ".scales": scales}
        return stored if not symmetric else {end: part for end, part in stored.items() if end != ".qzeros"}

    return pack


VARIANTS = {
    "zero points": ({}, AWQ),
    "no zero points": ({"symmetric": True}, AWQ | {"zero_point": False}),
    "whole columns": ({"group": -1}, AWQ | {"group_size": -1}),
    "upper case": ({}, AWQ | {"version": "GEMM"}),
}


def dequantized(parts, group, zero_point):
    """What compressed-tensors makes of it: integers around zero, scales and zero points, then its formula."""
    from compressed_tensors.entrypoints.convert.converters import AutoAWQConverter

    library = AutoAWQConverter(group_size=group, zero_point=zero_point)
    integers, scales, zeros = library._convert_gemm_module(parts[".qweight"], parts[".scales"], parts.get(".qzeros"))
    zeros = torch.zeros(scales.shape) if zeros is None else zeros
    size = integers.shape[1] // scales.shape[1]
    return (integers - zeros.repeat_interleave(size, 1)) * scales.float().repeat_interleave(size, 1)


@pytest.mark.few(2)
@pytest.mark.parametrize(("variant", "stated"), VARIANTS.values(), ids=VARIANTS)
def test_decoded_matrices_are_those_of_compressed_tensors(variant, stated, tmp_path):
    group, zero_point = stated["group_size"], stated["zero_point"]
    pack = awq(**variant)
    assert_decoded(tmp_path / "model", pack, stated, lambda matrix: dequantized(pack(matrix), group, zero_point))


UP = "model.layers.0.mlp.up_proj"


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"version": "gemv"}, "NothingToCompare: org/model: the weights are stored as AWQ in the layout gemv; hf"),
        ({"version": ["gemm"]}, "NothingToCompare: org/model: the weights are stored as AWQ in the layout ['gemm'];"),
        ({"bits": 8}, "CheckpointError: org/model: config.json: AWQ packs integers of 4 bits, and `bits` of quantiz"),
        ({"group_size": 128}, "CheckpointError: org/model: model.layers.0.mlp.down_proj.scales has shape (8, 96), but"),
        ({"group_size": 0}, "`group_size` of quantization_config must be a positive integer, not 0"),
    ],
)
def test_settings_that_do_not_fit_are_one_clear_line(stated, message, tmp_path):
    assert message in refused(tmp_path, awq(), AWQ | stated)


@pytest.mark.parametrize(
    ("end", "part", "message"),
    [
        (".qzeros", None, f"{UP}.qzeros is missing, and {UP}.qweight cannot be decoded"),
        (".scales", None, f"{UP}.scales is missing"),
        (".qzeros", torch.zeros(3, 31).int(), f"{UP}.qzeros has shape (3, 31), but the rest of its matrix"),
        (".scales", torch.full((3, 256), torch.nan), f"{UP}.scales holds scales that are not finite"),
        (".qweight", torch.zeros(96, dtype=torch.int32), f"{UP}.qweight has shape (96,), which is not the shape of a"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(end, part, message, tmp_path):
    damage = put_beside(UP)(end, part)
    error = refused(tmp_path, awq(), AWQ, damage)
    assert error.startswith("CheckpointError: ")
    assert message in error
