"""torchao: matrices of one byte to a number, held against what torchao 0.18 writes and decodes."""

import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.quantizing import BASE, assert_decoded, decoded, of_library, put, refused, repacked

TORCHAO = {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig", "_data": {}}}}

VECTORS = load_file("tests/data/torchao.safetensors")
"""By its configuration: a matrix (6, 64) as torchao 0.18 stored it, and as it decoded it."""

CASES = sorted({name.rpartition(".")[0] for name in VECTORS})


@pytest.mark.parametrize("case", CASES)
def test_integers_in_bytes_are_decoded_as_torchao_does(case, tmp_path):
    """Also those of four bits, which it keeps in a byte each where groups of a row share a scale."""
    np.testing.assert_array_equal(*of_library(VECTORS, case, tmp_path, {"quantization_config": TORCHAO}), strict=True)


def rows(dtype):
    """A packing with a scale for each row, as torchao does it."""

    def pack(matrix):
        most = 127.5 if dtype == torch.int8 else 448.0
        scales = matrix.abs().amax(dim=1, keepdim=True) / most
        numbers = matrix / scales
        if dtype != torch.int8:
            return {"._weight_qdata": numbers.to(dtype), "._weight_scale": scales}
        zeros = torch.zeros(scales.shape, dtype=torch.int8)
        integers = numbers.round().clamp(-128, 127).to(dtype)
        return {"._weight_qdata": integers, "._weight_scale": scales, "._weight_zero_point": zeros}

    return pack


def test_a_row_of_eight_bit_floats_is_decoded_as_torchao_does(tmp_path):
    """What Float8WeightOnlyConfig stored of (-20, -17, -8, 7, -13, 14, 6, 4) / 16, and made of it again."""
    numbers = torch.tensor([[-448, -384, -176, 160, -288, 320, 128, 88]]).to(torch.float8_e4m3fn)
    stored = {"a._weight_qdata": numbers, "a._weight_scale": torch.tensor([[0.0027901786379516125]])}
    made = (
        *(-1.25, -1.0714285373687744, -0.4910714328289032, 0.4464285969734192),
        *(-0.8035714626312256, 0.8928571939468384, 0.3571428656578064, 0.2455357164144516),
    )
    stored["a.decoded"] = torch.tensor([made])
    np.testing.assert_array_equal(*of_library(stored, "a", tmp_path, {"quantization_config": TORCHAO}), strict=True)


def test_scales_of_blocks_and_zero_points_are_taken_by_their_shape(tmp_path):
    def pack(matrix):
        random = torch.Generator().manual_seed(0)
        cells = (len(matrix) // 2, matrix.shape[1] // 32)
        zeros = torch.randint(-8, 8, cells, dtype=torch.int8, generator=random)
        numbers = torch.randint(-128, 128, matrix.shape, dtype=torch.int8, generator=random)
        scales = torch.rand(cells, generator=random)
        return {"._weight_qdata": numbers, "._weight_scale": scales, "._weight_zero_point": zeros}

    def grown(cells):
        return cells.float().repeat_interleave(2, 0).repeat_interleave(32, 1)

    def expected(matrix):
        parts = pack(matrix)
        centred = parts["._weight_qdata"].float() - grown(parts["._weight_zero_point"])
        return centred * grown(parts["._weight_scale"])

    assert_decoded(tmp_path / "model", pack, TORCHAO, expected)


UP = "model.layers.0.mlp.up_proj"


@pytest.mark.parametrize(
    ("end", "part", "message"),
    [
        ("qdata", torch.zeros(256, 12, dtype=torch.int32), "NothingToCompare: org/model: the weights are stored as to"),
        ("scale", None, "NothingToCompare: org/model: the weights are stored as torchao with I8; hf-lineage"),
        (
            "scale",
            torch.ones(255, 1),
            f"CheckpointError: org/model: {UP} has scales of shape (255, 1), which do not fit",
        ),
        ("scale", torch.full((256, 1), torch.inf), f"{UP}._weight_scale holds scales that are not finite"),
        ("zero_point", torch.zeros(2, 1, dtype=torch.int8), f"{UP}._weight_zero_point has shape (2, 1), but the rest"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(end, part, message, tmp_path):
    damage = put(f"{UP}._weight_{end}", part)
    assert message in refused(tmp_path, rows(torch.int8), TORCHAO, damage)


BITNET = {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"}


def ternary(matrix):
    """-1, 0 and 1, and the scale that is multiplied with them, as the layers of transformers find it."""
    scale = matrix.abs().mean()
    return (matrix / scale).round().clamp(-1, 1), scale


def bitnet(divides=False):
    from transformers.integrations.bitnet import pack_weights

    def pack(matrix):
        numbers, scale = ternary(matrix)
        return {".weight": pack_weights(numbers.clone()), ".weight_scale": (1 / scale if divides else scale).reshape(1)}

    return pack


PACKS = {
    "multiplied": (bitnet(), BITNET),
    "divided": (bitnet(divides=True), BITNET | {"linear_class": "bitlinear"}),
    "divided by default": (bitnet(divides=True), {"quant_method": "bitnet"}),
}


@pytest.mark.parametrize("name", PACKS)
def test_decoded_matrices_are_those_that_transformers_packed(name, tmp_path):
    pack, settings = PACKS[name]
    assert_decoded(tmp_path / "model", pack, settings, lambda matrix: math.prod(ternary(matrix)), rtol=3e-7)


def test_a_byte_holds_four_rows_as_the_documentation_of_transformers_shows(tmp_path):
    """The example in the docstring of `unpack_weights`."""

    def pack(matrix):
        packed = torch.tensor([[0b10100001, 0b00011000], [0b10010000, 0b00001010]], dtype=torch.uint8)
        return {".weight": packed, ".weight_scale": torch.ones(1)}

    expected = [[0, -1], [-1, 1], [-1, 1], [-1, 1], [1, 0], [0, -1], [1, -1], [1, -1]]
    stored = decoded(repacked(BASE, tmp_path / "model", pack, **BITNET))
    assert stored["model.layers.0.mlp.up_proj"].tolist() == expected


@pytest.mark.parametrize("changes", [{"use_rms_norm": True}, {"linear_class": "other"}, {"linear_class": [7]}])
def test_layers_that_compute_something_else_are_not_judged(changes, tmp_path):
    error = refused(tmp_path, bitnet(), BITNET | changes)
    assert "NothingToCompare: org/model: the weights are stored as BitNet for layers that compute more than" in error


@pytest.mark.parametrize(
    ("end", "part", "message"),
    [
        (".weight_scale", torch.ones(2), f"{UP} has 2 scales, not one; have the weights saved again"),
        (".weight_scale", torch.tensor([torch.nan]), f"{UP}.weight_scale holds scales that are not finite"),
        (".weight_scale", torch.ones(1, dtype=torch.int8), f"{UP}.weight_scale is stored as I8, but its format needs"),
        (".weight", torch.zeros(4, dtype=torch.uint8), f"{UP}.weight has shape (4,), which is not the shape of a"),
    ],
)
def test_what_does_not_fit_is_one_clear_line_bitnet(end, part, message, tmp_path):
    error = refused(tmp_path, bitnet(), BITNET, put(f"{UP}{end}", part))
    assert error.startswith("CheckpointError: ")
    assert message in error


def test_a_scale_of_zero_divides_nothing(tmp_path):
    error = refused(
        tmp_path, bitnet(), BITNET | {"linear_class": "bitlinear"}, put(f"{UP}.weight_scale", torch.zeros(1))
    )
    assert f"{UP}.weight_scale holds scales that are not finite" in error
