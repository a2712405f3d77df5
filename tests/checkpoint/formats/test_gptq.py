"""GPTQ: integers, scales and zero points are packed as gptqmodel packs them, and found again."""

import numpy as np
import pytest
import torch

from tests.models import spoil
from tests.quantizing import BASE, decoded, matrices, put, refused, repacked

GROUP = 32


def quantized(matrix, bits, group, symmetric, order):
    """Integers (in, out), scales and zero points (groups, out), and the group of each input."""
    columns = matrix.T
    inputs = len(columns)
    groups = torch.arange(inputs) // group
    if order:
        groups = groups[torch.randperm(inputs, generator=torch.Generator().manual_seed(3))]
    most = 2**bits - 1
    scales, zeros = [], []
    for number in range(int(groups.max()) + 1):
        some = columns[groups == number]
        low, high = some.amin(dim=0).clamp(max=0), some.amax(dim=0).clamp(min=0)
        if symmetric:
            high = torch.maximum(-low, high)
            low = -high
        scale = ((high - low) / most).clamp(min=1e-6).half()
        scales.append(scale)
        zeros.append(
            torch.full_like(low, 2 ** (bits - 1)) if symmetric else (-low / scale.float()).round().clamp(1, most)
        )
    scales, zeros = torch.stack(scales), torch.stack(zeros).int()
    integers = (columns / scales.float()[groups] + zeros[groups]).round().clamp(0, most).int()
    return integers, scales, zeros, groups.int()


def packed_rows(integers, bits):
    """Rows of integers in rows of words, from the lowest bits on, as `pack_original` of gptqmodel stores them."""
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    return pack_to_int32((integers - 2 ** (bits - 1)).to(torch.int8), bits, 0)


def gptq(bits=4, group=GROUP, symmetric=True, order=False, version=1, index=True):
    def pack(matrix):
        if bits == 3 and len(matrix) % 32:  # what cannot be packed stays as it is
            return {".weight": matrix}
        integers, scales, zeros, groups = quantized(
            matrix, bits, len(matrix.T) if group == -1 else group, symmetric, order
        )
        stored = {
            ".qweight": packed_rows(integers, bits),
            ".qzeros": packed_rows((zeros - (1 if version == 1 else 0)).T, bits).T,
            ".scales": scales,
            ".g_idx": groups,
        }
        return stored if index else {end: part for end, part in stored.items() if end != ".g_idx"}

    return pack


def settings(bits=4, group=GROUP, symmetric=True, order=False, version=1, index=True):
    kind = {1: "gptq", 2: "gptq_v2"}[version]
    return {
        "quant_method": "gptq",
        "bits": bits,
        "group_size": group,
        "sym": symmetric,
        "desc_act": order,
        "checkpoint_format": kind,
    }


VARIANTS = {
    "2 bits": {"bits": 2, "symmetric": False},
    "3 bits": {"bits": 3},
    "4 bits": {},
    "8 bits": {"bits": 8},
    "4 bits, asymmetric": {"symmetric": False},
    "4 bits, columns in another order": {"order": True},
    "3 bits, columns in another order": {"bits": 3, "order": True, "symmetric": False},
    "4 bits, whole columns": {"group": -1},
    "4 bits, second version": {"version": 2, "symmetric": False},
    "4 bits, without indices": {"index": False},
}


def dequantized(matrix, bits=4, group=GROUP, symmetric=True, order=False, **_):
    """What gptqmodel makes of a matrix."""
    size = len(matrix.T) if group == -1 else group
    integers, scales, zeros, groups = quantized(matrix, bits, size, symmetric, order)
    return (scales.float()[groups] * (integers - zeros[groups]).float()).T.numpy()


@pytest.mark.few(4)
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_decoded_matrices_are_what_was_packed(variant, tmp_path):
    """`tests/data/autoround.safetensors` has the same layouts as another program packed them."""
    stored = decoded(repacked(BASE, tmp_path / "model", gptq(**variant), **settings(**variant)))
    for module, matrix in matrices(BASE).items():
        if not (variant.get("bits") == 3 and len(matrix) % 32):
            np.testing.assert_array_equal(stored[module], dequantized(matrix, **variant), strict=True)


def test_matrices_of_other_bits_are_read_by_their_shape_where_the_settings_are_dynamic(tmp_path):
    def pack(matrix):
        return gptq(bits=8, group=16)(matrix) if matrix.shape[0] == 256 else gptq()(matrix)

    stored = decoded(repacked(BASE, tmp_path / "model", pack, **settings(), dynamic={"+:.*up_proj": {"bits": 8}}))
    for module, matrix in matrices(BASE).items():
        expected = dequantized(matrix, 8, 16) if matrix.shape[0] == 256 else dequantized(matrix)
        np.testing.assert_array_equal(stored[module], expected)


UP = "model.layers.0.mlp.up_proj"


DAMAGE = {
    "no scales": (put(f"{UP}.scales", None), f"{UP}.scales is missing, and {UP}.qweight cannot be decoded"),
    "too few words": (
        put(f"{UP}.qweight", torch.zeros(11, 256).int()),
        f"{UP} is packed in 11 words a column, too few or many for 96 integers of 4 bits; have the weights saved again",
    ),
    "too few groups": (
        put(f"{UP}.scales", torch.ones(2, 256).half()),
        f"{UP} has scales for 2 groups, where 96 inputs",
    ),
    "scales that are infinite": (
        put(f"{UP}.scales", torch.full((3, 256), torch.inf).half()),
        f"{UP}.scales holds scales that are not finite",
    ),
    "a group that is not there": (
        put(f"{UP}.g_idx", torch.full((96,), 3).int()),
        f"{UP}.g_idx names a group that is not among its 3",
    ),
    "a negative group": (put(f"{UP}.g_idx", torch.full((96,), -1).int()), "names a group that is not among"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_what_does_not_fit_is_one_clear_line(damage, message, tmp_path):
    error = refused(spoil(repacked(BASE, tmp_path / "model", gptq(), **settings()), damage))
    assert error.startswith("CheckpointError: ")
    assert message in error


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"bits": 3}, "CheckpointError: org/model: model.layers.0.mlp.down_proj is packed in 32 words a column,"),
        ({"bits": 5}, "is packed in 32 words a column, too few or many for 256 integers of 5 bits"),
        ({"bits": None}, "CheckpointError: org/model: config.json: `bits` of quantization_config must be a positive"),
        ({"bits": 10**12}, "`bits` of quantization_config must be a positive integer, not 1000000000000"),
        ({"group_size": 64}, "has scales for 8 groups, where 256 inputs in groups of 64 need another number"),
        ({"group_size": [32]}, "`group_size` of quantization_config must be a positive integer, not [32]"),
        (
            {"checkpoint_format": "marlin"},
            "NothingToCompare: org/model: the weights are stored as GPTQ in the layout m",
        ),
        (
            {"checkpoint_format": ["gptq"]},
            "NothingToCompare: org/model: the weights are stored as GPTQ in the layout [",
        ),
    ],
)
def test_settings_that_do_not_fit_are_one_clear_line(stated, message, tmp_path):
    assert message in refused(repacked(BASE, tmp_path / "model", gptq(), **settings() | stated))
