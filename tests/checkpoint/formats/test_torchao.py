"""torchao 0.18 and optimum-quanto 0.2.7 decoded what stands in `tests/data`; BitNet is as transformers packs it."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hf_lineage.errors import NothingToCompare
from tests.quantizing import BASE, assert_decoded, decoded, of_library, repacked

TORCHAO = {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig", "_data": {}}}}
CONFIG = {"quantization_config": TORCHAO}
VECTORS, OF_QUANTO = (load_file(f"tests/data/{name}.safetensors") for name in ("torchao", "quanto"))
"""By its configuration, or its type: a matrix as the library stored it, and as it decoded it."""
CASES = [(VECTORS, name, CONFIG) for name in sorted({name.rpartition(".")[0] for name in VECTORS})]
CASES += [(OF_QUANTO, name, {}) for name in ("qint8", "qfloat8_e4m3fn", "qfloat8_e5m2")]
DECODED = [-1.25, -1.0714285373687744, -0.4910714328289032, 0.4464285969734192]
DECODED += [-0.8035714626312256, 0.8928571939468384, 0.3571428656578064, 0.2455357164144516]
EIGHT_BITS = {
    "fp8._weight_qdata": torch.tensor([[-448, -384, -176, 160, -288, 320, 128, 88]]).to(torch.float8_e4m3fn),
    "fp8._weight_scale": torch.tensor([[0.0027901786379516125]]),
    "fp8.decoded": torch.tensor([DECODED]),
}
"""What Float8WeightOnlyConfig stored of (-20, -17, -8, 7, -13, 14, 6, 4) / 16, and made of it again."""
CASES.append((EIGHT_BITS, "fp8", CONFIG))
BITNET = {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"}
DIVIDED = BITNET | {"linear_class": "bitlinear"}
NO_CLASS = {"quant_method": "bitnet"}
UP = "model.layers.0.mlp.up_proj"
WRONG, NOT_FINITE = "CheckpointError: org/model: ", "holds scales that are not finite"
NOT_DECODED = "NothingToCompare: org/model: the weights are stored as torchao with "
INTEGERS = (
    ("_weight_qdata", torch.zeros(256, 12, dtype=torch.int32), f"{NOT_DECODED}I32"),
    ("_weight_scale", None, f"{NOT_DECODED}I8; hf-lineage"),
    ("_weight_scale", torch.ones(255, 1), f"{WRONG}{UP} has scales of shape (255, 1), which do not fit"),
    ("_weight_scale", torch.full((256, 1), torch.inf), f"{UP}._weight_scale {NOT_FINITE}"),
    ("_weight_zero_point", torch.zeros(2, 1).char(), f"{UP}._weight_zero_point has shape (2, 1), but the rest"),
)
QUANTO = (
    ("weight._scale", None, f"{WRONG}{UP}.weight._scale is missing, and"),
    ("weight._scale", torch.ones(255, 1), f"{UP} has scales of shape (255, 1), which do not fit the rows of a matrix"),
    ("weight._scale", torch.full((256, 1), torch.nan), f"{UP}.weight._scale {NOT_FINITE}"),
    ("weight._data", torch.zeros(256, 96).int(), f"{UP}.weight._data is stored as I32, but its format needs"),
    ("weight._data", torch.zeros(256).char(), "has shape (256,), which is not the shape of a matrix"),
)
TERNARY = (
    ("weight_scale", torch.ones(2), f"{WRONG}{UP} has 2 scales, not one; have the weights saved again"),
    ("weight_scale", torch.tensor([torch.nan]), f"CheckpointError: {UP}.weight_scale {NOT_FINITE}"),
    ("weight_scale", torch.ones(1).char(), f"{WRONG}{UP}.weight_scale is stored as I8, but its format needs"),
    ("weight", torch.zeros(4).byte(), f"{WRONG}{UP}.weight has shape (4,), which is not the shape of a"),
)
DIVIDED_BY_NOTHING = ("weight_scale", torch.zeros(1), f"CheckpointError: {UP}.weight_scale {NOT_FINITE}")
ODD: Any = ({"use_rms_norm": True}, {"linear_class": "other"}, {"linear_class": [7]})
MORE = "NothingToCompare: org/model: the weights are stored as BitNet for layers that compute more than"


@pytest.mark.parametrize(("vectors", "case", "config"), CASES, ids=[case for _, case, _ in CASES])
def test_bytes_are_decoded_as_torchao_and_quanto_do(vectors, case, config, tmp_path):
    """Also those of four bits, which torchao keeps in a byte each where groups of a row share a scale."""
    np.testing.assert_array_equal(*of_library(vectors, case, tmp_path, config), strict=True)


def rows(dtype):
    """A packing with a scale for each row, as torchao does it."""

    def pack(matrix):
        scales = matrix.abs().amax(dim=1, keepdim=True) / (127.5 if dtype == torch.int8 else 448.0)
        if dtype != torch.int8:
            return {"._weight_qdata": (matrix / scales).to(dtype), "._weight_scale": scales}
        integers = (matrix / scales).round().clamp(-128, 127).to(dtype)
        zeros = torch.zeros(scales.shape, dtype=torch.int8)
        return {"._weight_qdata": integers, "._weight_scale": scales, "._weight_zero_point": zeros}

    return pack


def quanto(dtype):
    def pack(matrix):
        scales = matrix.abs().amax(dim=1, keepdim=True) / (127.0 if dtype == torch.int8 else torch.finfo(dtype).max)
        numbers = (matrix / scales).round() if dtype == torch.int8 else matrix / scales
        ends = {f".{side}_scale": torch.tensor(1.0) for side in ("input", "output")}
        return {".weight._data": numbers.to(dtype), ".weight._scale": scales} | ends

    return pack


def test_scales_of_blocks_and_zero_points_are_taken_by_their_shape(tmp_path):
    def pack(matrix):
        random = torch.Generator().manual_seed(0)
        cells = (len(matrix) // 2, matrix.shape[1] // 32)
        zeros = torch.randint(-8, 8, cells, dtype=torch.int8, generator=random)
        numbers = torch.randint(-128, 128, matrix.shape, dtype=torch.int8, generator=random)
        scales = torch.rand(cells, generator=random)
        return {"._weight_qdata": numbers, "._weight_scale": scales, "._weight_zero_point": zeros}

    def expected(matrix):
        numbers, *cells = pack(matrix).values()
        scales, zeros = (one.float().repeat_interleave(2, 0).repeat_interleave(32, 1) for one in cells)
        return (numbers.float() - zeros) * scales

    assert_decoded(tmp_path / "model", pack, TORCHAO, expected)


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


@pytest.mark.parametrize("settings", [BITNET, DIVIDED, NO_CLASS], ids=["multiplied", "divided", "divided by default"])
def test_decoded_matrices_are_those_that_transformers_packed(settings, tmp_path):
    pack = bitnet(divides=settings is not BITNET)
    assert_decoded(tmp_path / "model", pack, settings, lambda matrix: math.prod(ternary(matrix)), rtol=3e-7)


def test_a_byte_of_bitnet_holds_four_rows_and_fewer_bits_of_quanto_are_refused(tmp_path):
    """The example in the docstring of `unpack_weights`."""

    def pack(_):
        packed = torch.tensor([[0b10100001, 0b00011000], [0b10010000, 0b00001010]], dtype=torch.uint8)
        return {".weight": packed, ".weight_scale": torch.ones(1)}

    expected = [[0, -1], [-1, 1], [-1, 1], [-1, 1], [1, 0], [0, -1], [1, -1], [1, -1]]
    model = repacked(BASE, tmp_path / "model", pack, **BITNET)
    assert decoded(model)["model.layers.0.mlp.up_proj"].tolist() == expected
    how = "by quanto with fewer than eight bits, and their shapes are not stored; check the release in F16, BF16 or F32"
    with pytest.raises(NothingToCompare, match=f"^org/model: the weights are stored {how} instead$"):
        of_library(OF_QUANTO, "qint4", tmp_path, {})


PACKED: Any = ((rows(torch.int8), TORCHAO, INTEGERS), (quanto(torch.int8), {}, QUANTO), (bitnet(), BITNET, TERNARY))
PACKED += ((bitnet(), DIVIDED, [DIVIDED_BY_NOTHING]),)
DAMAGED = [(*how, f"{UP}.{end}", part, message) for *how, table in PACKED for end, part, message in table]
DAMAGED += [(bitnet(), BITNET | changes, "", None, MORE) for changes in ODD]
