"""HQQ: held against what hqq 0.2.8 packed and decoded, and what does not fit is refused."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.models import spoil
from tests.quantizing import BASE, of_library, opened, put, refused, repacked

VECTORS = load_file("tests/data/hqq.safetensors")
"""By bits and axis: a matrix (8, 64) in groups of 32 as hqq packed it, and as it decoded it."""
CASES = sorted({".".join(name.split(".")[:2]) for name in VECTORS})
SETTINGS = {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64, "axis": 1}}}
PACKINGS = {8: "8bit_u8", 4: "4bit_u8", 2: "2bit_u8", 3: "3bit_32"}


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
        return {
            ".W_q": packed if bits == 3 else packed.to(torch.uint8),
            ".scale": scale.half(),
            ".zero": zero.half(),
            ".nbits": torch.tensor(bits, dtype=torch.int32),
            ".shape": torch.tensor(matrix.shape),
            ".group_size": torch.tensor(group, dtype=torch.int32),
            ".axis": torch.tensor(axis, dtype=torch.int32),
            ".packing": torch.tensor([ord(letter) for letter in PACKINGS[bits]], dtype=torch.uint8),
            ".view_as_float": torch.tensor(0, dtype=torch.uint8),
            ".stores_quant_config": torch.tensor(1, dtype=torch.uint8),
        }

    return pack


PACKS = {
    **{f"{bits} bits": (hqq(bits), SETTINGS) for bits in PACKINGS},
    "4 bits, groups of columns": (hqq(4, axis=0), SETTINGS),
}


@pytest.mark.parametrize("case", CASES)
def test_a_matrix_is_decoded_as_hqq_does(case, tmp_path):
    np.testing.assert_array_equal(*of_library(VECTORS, case, tmp_path, {"quantization_config": SETTINGS}), strict=True)


def test_the_vectors_are_of_every_width_and_both_axes():
    assert [f"{bits}.{axis}" for bits in (1, 2, 3, 4, 8) for axis in (0, 1)] == CASES


UP = "model.layers.0.mlp.up_proj"
LATER = "model.layers.1.mlp.up_proj"


def letters(text):
    return torch.tensor([ord(letter) for letter in text], dtype=torch.uint8)


def number(value):
    return torch.tensor(value, dtype=torch.int32)


DAMAGE = {
    "no scales": (f"{UP}.scale", None, f"CheckpointError: org/model: {UP}.scale is missing, and"),
    "no shape": (f"{UP}.shape", None, f"CheckpointError: org/model: {UP}.shape is missing, and"),
    "another shape": (f"{UP}.shape", torch.tensor([96, 128]), f"{UP}.W_q has shape (384, 32), but the"),
    "an absurd shape": (f"{UP}.shape", torch.tensor([2**40, 2**40]), "does not say its shape and its groups"),
    "a shape that is none": (f"{UP}.shape", torch.tensor([-1, 96]), "does not say its shape and its groups"),
    "a group of nothing": (f"{UP}.group_size", number(0), "does not say its shape and its gr"),
    "another group": (f"{UP}.group_size", number(64), f"{UP}.W_q has shape (384, 32), but the"),
    "no axis": (f"{UP}.axis", number(2), "does not say its shape and its groups"),
    "another packing": (f"{UP}.packing", letters("8bit_u8"), f"{UP}.W_q has shape (384, 32), but the rest of its"),
    "an unknown packing": (
        f"{UP}.packing",
        letters("5bit"),
        "NothingToCompare: org/model: the weights are stored by H",
    ),
    "bytes seen as floats": (f"{UP}.view_as_float", number(1).byte(), "the packing 4bit_u8 as floats"),
    "few scales": (f"{UP}.scale", torch.ones(7, 1), f"{UP}.scale has shape (7, 1), but the rest of its matrix needs"),
    "infinite scales": (f"{UP}.scale", torch.full((768, 1), torch.inf), "holds scales that are not finite"),
    "too long a description": (f"{UP}.packing", letters("4" * 5000), "takes 5000 bytes, too many for a description"),
    "another axis later": (f"{LATER}.axis", number(0), f"{LATER} is not stored like the matrices"),
}


@pytest.mark.parametrize(("name", "part", "message"), DAMAGE.values(), ids=DAMAGE)
def test_what_does_not_fit_is_one_clear_line(name, part, message, tmp_path):
    assert message in refused(tmp_path, hqq(), SETTINGS, put(name, part))


def test_a_bias_beside_a_matrix_stays(tmp_path):
    folder = repacked(BASE, tmp_path / "model", hqq(), **SETTINGS)
    assert opened(spoil(folder, put(f"{UP}.bias", torch.ones(256)))).read(f"{UP}.bias").sum() == 256


def test_a_file_may_not_hold_the_matrix_twice(tmp_path):
    twice = refused(tmp_path, hqq(), SETTINGS, put(f"{UP}.weight", torch.ones(256, 96)))
    assert f"{UP}.weight is stored in two ways, once as HQQ" in twice
