"""HQQ and MLX: held against what hqq 0.2.8 and mlx 0.32.4 packed and decoded; what does not fit is refused."""

import shutil
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file as numpy_file
from safetensors.numpy import save_file
from safetensors.torch import load_file

from hf_lineage.checkpoint.formats.grouped import MLX_BITS
from tests.checkpoint.conftest import words
from tests.models import WEIGHTS, edit_json, spoil, tiny_llama
from tests.quantizing import BASE, of_library, opened, put, repacked

VECTORS, OF_MLX = (load_file(f"tests/data/{name}.safetensors") for name in ("hqq", "mlx"))
"""By bits and axis, or bits and group: a matrix as the library packed it, and as it decoded it."""
CASES, MLX_CASES = (sorted({".".join(name.split(".")[:2]) for name in vectors}) for vectors in (VECTORS, OF_MLX))
SETTINGS = {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64, "axis": 1}}}
PACKINGS = {8: "8bit_u8", 4: "4bit_u8", 2: "2bit_u8", 3: "3bit_32"}
UP, LATER = "model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj"
NOT_READ, NO_SIZES = "NothingToCompare: org/model:", "does not say its shape and its groups"
ENDS = ("weight", "scales", "biases")
MLX = {"bits": 4, "group_size": 32}
MLX_DAMAGE = [
    (f"{UP}.scales", None, f"CheckpointError: org/model: {UP}.scales is missing, and"),
    (f"{UP}.scales", torch.ones(1, 3), f"{UP}.scales has shape (1, 3), but the rest of its matrix"),
    (f"{UP}.biases", torch.ones(1, 3), f"{UP}.biases has shape (1, 3), but the rest of its matrix"),
    (f"{UP}.weight", torch.zeros(256, 12).int(), f"{UP}.weight is stored as I32"),
    (f"{UP}.scales", torch.full((256, 3), torch.nan), "holds scales that are not finite"),
]
MLX_SETTINGS: list[Any] = [
    ({"group_size": 64}, "x 64 integers of 4 bits; have"),
    ({"bits": 8}, "x 32 integers of 8 bits; have"),
    ({"bits": 7}, "x 32 integers of 7 bits; have"),
    ({"bits": "4"}, "`bits` must be a positive integer, not '4'"),
    ({"mode": "mxfp4"}, f"{NOT_READ} the weights are stored by MLX with the mode mxfp4, which is not"),
]


def letters(text):
    return torch.tensor([ord(letter) for letter in text], dtype=torch.uint8)


def number(value):
    return torch.tensor(value, dtype=torch.int32)


def hqq(bits=4, axis=1, group=32):
    """A packing by the published code, the scales not optimized."""

    def pack(matrix):
        grouped = matrix.reshape(-1, group) if axis == 1 else matrix.reshape(group, -1)
        low, high = grouped.amin(dim=axis, keepdim=True), grouped.amax(dim=axis, keepdim=True)
        scale = (high - low).clamp(min=1e-4) / (2**bits - 1)
        zero = -low / scale
        integers = (grouped / scale + zero).round().clamp(0, 2**bits - 1).int()
        planes = 10 if bits == 3 else 8 // bits
        missing = -len(integers) % planes
        pieces = torch.cat([integers, torch.zeros(missing, integers.shape[1], dtype=torch.int32)]).chunk(planes)
        packed = sum(piece << (bits * (planes - 1 - place)) for place, piece in enumerate(pieces))
        sizes = {".nbits": number(bits), ".group_size": number(group), ".axis": number(axis)}
        return sizes | {
            ".W_q": packed if bits == 3 else packed.to(torch.uint8),
            ".scale": scale.half(),
            ".zero": zero.half(),
            ".shape": torch.tensor(matrix.shape),
            ".packing": letters(PACKINGS[bits]),
            ".view_as_float": number(0).byte(),
            ".stores_quant_config": number(1).byte(),
        }

    return pack


@pytest.mark.parametrize("case", CASES)
def test_a_matrix_is_decoded_as_hqq_does(case, tmp_path):
    np.testing.assert_array_equal(*of_library(VECTORS, case, tmp_path, {"quantization_config": SETTINGS}), strict=True)
    assert [f"{bits}.{axis}" for bits in (1, 2, 3, 4, 8) for axis in (0, 1)] == CASES
    assert {int(case.split(".")[0]) for case in MLX_CASES} == set(MLX_BITS)


DAMAGE = [
    (f"{UP}.scale", None, f"CheckpointError: org/model: {UP}.scale is missing, and"),
    (f"{UP}.shape", None, f"CheckpointError: org/model: {UP}.shape is missing, and"),
    (f"{UP}.shape", torch.tensor([96, 128]), f"{UP}.W_q has shape (384, 32), but the"),
    (f"{UP}.shape", torch.tensor([2**40, 2**40]), NO_SIZES),
    (f"{UP}.shape", torch.tensor([-1, 96]), NO_SIZES),
    (f"{UP}.group_size", number(0), NO_SIZES),
    (f"{UP}.group_size", number(64), f"{UP}.W_q has shape (384, 32), but the"),
    (f"{UP}.axis", number(2), NO_SIZES),
    (f"{UP}.packing", letters("8bit_u8"), f"{UP}.W_q has shape (384, 32), but the rest of its"),
    (f"{UP}.packing", letters("5bit"), f"{NOT_READ} the weights are stored by H"),
    (
        f"{UP}.view_as_float",
        number(1).byte(),
        f"{NOT_READ} the weights are stored by HQQ with the packing 4bit_u8 as floats",
    ),
    (f"{UP}.scale", torch.ones(7, 1), f"{UP}.scale has shape (7, 1), but the rest of its matrix needs"),
    (f"{UP}.scale", torch.full((768, 1), torch.inf), "holds scales that are not finite"),
    (f"{UP}.packing", letters("4" * 5000), "takes 5000 bytes, too many for a description"),
    (f"{LATER}.axis", number(0), f"{LATER} is not stored like the matrices"),
    (f"{UP}.weight", torch.ones(256, 96), f"Ambiguous: org/model: {UP}.weight is stored in two ways"),
]


def quantized(values, bits, group):
    """A matrix by the formula of MLX: a scale and a bias for each group, integers packed from the lowest bit on."""
    grouped = values.astype(np.float32).reshape(len(values), -1, group)
    low = grouped.min(axis=2, keepdims=True)
    scales = np.maximum((grouped.max(axis=2, keepdims=True) - low) / (2**bits - 1), 1e-7)
    codes = np.rint((grouped - low) / scales).clip(0, 2**bits - 1)
    return words(codes.reshape(len(values), -1), bits), scales[..., 0], low[..., 0]


def mlx(bits, group=32):
    def pack(matrix):
        packed, scales, biases = map(torch.from_numpy, quantized(matrix.numpy(), bits, group))
        return {".weight": packed, ".scales": scales.half(), ".biases": biases.half()}

    return pack


def released(source, folder, bits=4, group=32, **changes):
    shutil.copytree(source, folder)
    stored = {}
    for name, tensor in numpy_file(source / WEIGHTS).items():
        plain = tensor.ndim == 1 or tensor.shape[1] % group
        names = [name] if plain else [f"{name.removesuffix('weight')}{end}" for end in ENDS]
        stored |= zip(names, [tensor] if plain else quantized(tensor, bits, group), strict=True)
    save_file(stored, folder / WEIGHTS)
    edit_json(folder / "config.json", quantization={"bits": bits, "group_size": group} | changes)
    return folder


@pytest.mark.parametrize("case", MLX_CASES)
@pytest.mark.parametrize("key", ["quantization", "quantization_config"])
def test_every_width_and_group_is_decoded_as_mlx_decodes_it(case, key, tmp_path):
    bits, group = map(int, case.split("."))
    found = of_library(OF_MLX, case, tmp_path, {key: {"bits": bits, "group_size": group}})
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-7)


def test_one_matrix_may_have_settings_of_its_own_and_a_bias_beside_it_stays(tmp_path):
    base = tiny_llama(tmp_path / "base")
    folder = released(base, tmp_path / "child", **{LATER: {"bits": 8, "group_size": 16}})
    matrix = numpy_file(base / WEIGHTS)[f"{LATER}.weight"]
    parts = dict(zip(ENDS, map(torch.from_numpy, quantized(matrix, 8, 16)), strict=True))
    spoil(folder, lambda stored: stored.update({f"{LATER}.{end}": part for end, part in parts.items()}))
    np.testing.assert_allclose(opened(folder).read(f"{LATER}.weight"), matrix, atol=2e-2)
    folder = repacked(BASE, tmp_path / "model", hqq(), **SETTINGS)
    assert opened(spoil(folder, put(f"{UP}.bias", torch.ones(256)))).read(f"{UP}.bias").sum() == 256


DAMAGED = [(hqq(), SETTINGS, *row) for row in DAMAGE] + [(mlx(4), MLX, *row) for row in MLX_DAMAGE]
DAMAGED += [(mlx(4), MLX | stated, "", None, message) for stated, message in MLX_SETTINGS]
