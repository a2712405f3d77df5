"""compressed-tensors: written and decoded by the library itself."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.quantizing import BASE, assert_decoded, decoded, matrices, repacked

FLOAT8, FLOAT4 = ({"num_bits": bits, "type": "float"} for bits in (8, 4))
PACK, INT, FLOAT, NVFP4, MXFP4 = (f"{name}-quantized" for name in ("pack", "int", "float", "nvfp4-pack", "mxfp4-pack"))
GROUPS: dict[str, Any] = {"num_bits": 4, "group_size": 32, "strategy": "group"}
ROWS, WHOLE = ({"num_bits": 8, "strategy": strategy} for strategy in ("channel", "tensor"))
CASES = {
    "4 bits, groups": (PACK, GROUPS),
    "4 bits, groups, zero points": (PACK, GROUPS | {"symmetric": False}),
    "4 bits, rows": (PACK, ROWS | {"num_bits": 4}),
    "4 bits, rows, zero points": (PACK, ROWS | {"num_bits": 4, "symmetric": False}),
    "8 bits packed": (PACK, GROUPS | {"num_bits": 8, "group_size": 16}),
    "3 bits": (PACK, GROUPS | {"num_bits": 3, "symmetric": False}),
    "int8, rows": (INT, ROWS),
    "int8, whole": (INT, WHOLE),
    "int8, zero points": (INT, ROWS | {"symmetric": False}),
    "FP8, rows": (FLOAT, FLOAT8 | ROWS),
    "FP8, whole": (FLOAT, FLOAT8 | WHOLE),
    "FP8, blocks": (FLOAT, {**FLOAT8, "strategy": "block", "block_structure": [16, 32]}),
    "FP8, naive": ("naive-quantized", FLOAT8 | ROWS),
    "MXFP8": ("mxfp8-quantized", GROUPS | FLOAT8 | {"scale_dtype": torch.uint8}),
    "MXFP4": (MXFP4, GROUPS | FLOAT4 | {"scale_dtype": torch.uint8}),
    "NVFP4": (NVFP4, {**FLOAT4, "strategy": "tensor_group", "group_size": 16}),
}
PART = "model.layers.1.mlp.up_proj.weight_"
PACKED, BYTES, NV = "4 bits, groups, zero points", "int8, rows", "NVFP4"
ODD: Any = ({"num_bits": 8}, {"group_size": 64}, {"group_size": -1}, {"strategy": "tensor"}, {"strategy": ["group"]})
ODD += ({"num_bits": "4"}, {"strategy": "block", "block_structure": [0, 0]})
ODD_WEIGHTS = (None, *(GROUPS | odd for odd in ODD))
DAMAGE: list[Any] = [
    (PACKED, "scale", None, f"{PART}scale is missing, and {PART}packed"),
    (PACKED, "shape", None, f"{PART}shape is missing"),
    (PACKED, "zero_point", None, f"{PART}zero_point is missing"),
    (PACKED, "shape", torch.tensor([96, 256]), f"{PART}shape says another shape"),
    (PACKED, "shape", torch.tensor([0, -1]), f"{PART}shape says 0 x -1, which is not"),
    (PACKED, "shape", torch.tensor([1, 2, 3]), f"{PART}shape has shape (3,), but"),
    (PACKED, "packed", torch.zeros(256, 3).int(), "1.mlp.up_proj has 1 bits, shape (256, 96) and scales"),
    (PACKED, "scale", torch.ones(256, 2), "and scales of shape (256, 2), which no group"),
    (PACKED, "scale", torch.full((256, 3), torch.nan), f"{PART}scale holds scales that ar"),
    (PACKED, "g_idx", torch.full((96,), 3).int(), f"{PART}g_idx names a group that is"),
    (BYTES, "scale", torch.ones(255, 1), "and scales of shape (255, 1), which no g"),
    (NV, "global_scale", torch.ones(2), "1.mlp.up_proj has 2 scales of the whole matrix"),
    (NV, "global_scale", torch.zeros(1), f"{PART}scale holds scales that are n"),
    (NV, "scale", torch.ones(256, 6), f"{PART}scale is stored as F32"),
    (NV, "packed", torch.zeros(256, 47).byte(), "1.mlp.up_proj has 94 numbers in a row, which"),
]
ODD_GROUPS: list[Any] = [None, {}, [], {"group_0": None}, *({"group_0": {"weights": one}} for one in ODD_WEIGHTS)]
NO_GROUP = "which no group of `config_groups` in config.json describes"


def scheme(**weights):
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    return QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**weights))


def extremes(matrix, args):
    """The smallest and the largest number of every block, in the shape of the scales."""
    rows, columns = matrix.shape
    blocks = {"tensor": (rows, columns), "block": args.block_structure, "channel": (1, columns)}
    tall, wide = blocks.get(args.strategy, (1, args.group_size))
    low, high = matrix.reshape(rows // tall, tall, columns // wide, wide).transpose(1, 2).flatten(2).aminmax(dim=2)
    return (low.reshape(1), high.reshape(1)) if args.strategy == "tensor" else (low, high)


def compressed(form, whole=None, **weights):
    """A packing in a format of the library; `whole` is the scale of the matrix in NVFP4."""
    from compressed_tensors.quantization.utils import calculate_qparams

    args = scheme(**weights)

    def pack(matrix):
        state = {"weight": matrix}
        if whole:
            state["weight_global_scale"] = whole / matrix.abs().amax().reshape(1)
        scale, zero = calculate_qparams(*extremes(matrix, args.weights), args.weights, state.get("weight_global_scale"))
        state |= {"weight_scale": scale.float() if not whole else scale, "weight_zero_point": zero}
        packed = library(form).compress(state, args)
        return {f".{end}": part for end, part in packed.items() if part is not None}

    return pack


def library(form):
    from compressed_tensors.compressors import BaseCompressor

    return BaseCompressor.get_value_from_registry(form)


def settings(form, **weights):
    group = {"targets": ["Linear"], "weights": scheme(**weights).weights.model_dump(mode="json")}
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": group}}


def dequantized(parts, form, **weights):
    """Decompressed, in float32 where the library says bfloat16."""
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization.lifecycle.forward import dequantize

    args = scheme(**weights)
    state = {end.removeprefix("."): part for end, part in parts.items()}
    if not form.endswith("fp4-pack-quantized"):
        return library(form).decompress(state, args)["weight"].float()
    packed = state["weight_packed"]
    numbers = unpack_fp4_from_uint8(packed, len(packed), 2 * packed.shape[1], torch.float32)
    scale = library(form)._decompress_scale(state["weight_scale"], torch.float32)
    return dequantize(numbers, scale, args=args.weights, global_scale=state.get("weight_global_scale"))


def case(name):
    form, weights = CASES[name]
    return compressed(form, 448.0 * 6 if form == NVFP4 else None, **weights), settings(form, **weights)


@pytest.mark.few(8)
@pytest.mark.parametrize("name", CASES)
def test_decoded_matrices_are_those_of_the_library(name, tmp_path):
    (form, weights), (pack, stated), model = CASES[name], case(name), tmp_path / "model"
    assert_decoded(model, pack, stated, lambda matrix: dequantized(pack(matrix), form, **weights), rtol=3e-7)


@pytest.mark.parametrize("ordered", [True, False])
def test_columns_may_be_in_another_order_than_their_groups(ordered, tmp_path):
    """So older versions of the library wrote it; -1 stands for no order."""
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    made = []

    def pack(matrix):
        random = torch.Generator().manual_seed(len(made))
        rows, columns = matrix.shape
        groups = torch.randperm(columns, generator=random) // 32 if ordered else torch.arange(columns) // 32
        numbers = torch.randint(-8, 8, matrix.shape, generator=random, dtype=torch.int8)
        zeros = torch.randint(-8, 8, (rows, columns // 32), generator=random, dtype=torch.int8)
        scales = torch.rand(zeros.shape, generator=random)
        made.append((numbers - zeros[:, groups]) * scales[:, groups])
        return {
            ".weight_packed": pack_to_int32(numbers, 4),
            ".weight_scale": scales,
            ".weight_zero_point": pack_to_int32(zeros, 4, packed_dim=0),
            ".weight_shape": torch.tensor(matrix.shape),
            ".weight_g_idx": groups.int() if ordered else torch.full((columns,), -1, dtype=torch.int32),
        }

    _, stated = case("4 bits, groups, zero points")
    stored = decoded(repacked(BASE, tmp_path / "model", pack, **stated))
    for module, expected in zip(matrices(BASE), made, strict=True):
        np.testing.assert_array_equal(stored[module], expected.numpy())


def test_of_several_groups_the_one_that_fits_describes_a_matrix(tmp_path):
    four, stated = case("4 bits, groups")
    eight, other = case("int8, rows")

    def pack(matrix):
        return four(matrix) if matrix.shape[0] == 256 else eight(matrix)

    both = {"group_0": other["config_groups"]["group_0"], "group_1": stated["config_groups"]["group_0"]}

    def expected(matrix):
        parts = pack(matrix)
        form, weights = CASES["4 bits, groups" if ".weight_packed" in parts else "int8, rows"]
        return dequantized(parts, form, **weights)

    mixed = stated | {"format": "mixed-precision", "config_groups": both}
    assert_decoded(tmp_path / "model", pack, mixed, expected, rtol=3e-7)


DAMAGED = [(*case(name), f"{PART}{end}", part, message) for name, end, part, message in DAMAGE]
FOUR, STATED = case("4 bits, groups")
DAMAGED += [(FOUR, STATED | {"config_groups": groups}, "", None, NO_GROUP) for groups in ODD_GROUPS]
