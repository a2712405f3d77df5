"""GPTQ: written as gptqmodel packs it, decoded as gptqmodel dequantizes it (its loops stand here, in torch)."""

import numpy as np
import pytest
import torch

from tests.quantizing import assert_decoded, put_beside, refused

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
    """`pack_original` of gptqmodel: rows of integers into rows of words."""
    values = integers.numpy().astype(np.uint32)
    rows = np.zeros((len(values) * bits // 32, values.shape[1]), np.uint32)
    if bits != 3:
        factor = 32 // bits
        for row in range(len(rows)):
            for j in range(factor):
                rows[row] |= values[row * factor + j] << np.uint32(bits * j)
        return torch.from_numpy(rows.view(np.int32))
    i = row = 0
    while row < len(rows):
        for j in range(i, i + 10):
            rows[row] |= values[j] << np.uint32(3 * (j - i))
        i += 10
        rows[row] |= values[i] << np.uint32(30)
        row += 1
        rows[row] |= (values[i] >> np.uint32(2)) & np.uint32(1)
        i += 1
        for j in range(i, i + 10):
            rows[row] |= values[j] << np.uint32(3 * (j - i) + 1)
        i += 10
        rows[row] |= values[i] << np.uint32(31)
        row += 1
        rows[row] |= (values[i] >> np.uint32(1)) & np.uint32(3)
        i += 1
        for j in range(i, i + 10):
            rows[row] |= values[j] << np.uint32(3 * (j - i) + 2)
        i += 10
        row += 1
    return torch.from_numpy(rows.view(np.int32))


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


def dequantized(matrix, bits=4, group=GROUP, symmetric=True, order=False, **_):
    """`dequantize_weight` of gptqmodel's TorchLinear, of the integers before they were packed."""
    if bits == 3 and len(matrix) % 32:
        return matrix
    size = len(matrix.T) if group == -1 else group
    integers, scales, zeros, groups = quantized(matrix, bits, size, symmetric, order)
    return (scales.float()[groups] * (integers - zeros[groups]).float()).T


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


@pytest.mark.few(4)
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_decoded_matrices_are_those_of_gptqmodel(variant, tmp_path):
    model, pack, stated = tmp_path / "model", gptq(**variant), settings(**variant)
    assert_decoded(model, pack, stated, lambda matrix: dequantized(matrix, **variant))


def test_matrices_of_other_bits_are_read_by_their_shape_where_the_settings_are_dynamic(tmp_path):
    def pack(matrix):
        return gptq(bits=8, group=16)(matrix) if matrix.shape[0] == 256 else gptq()(matrix)

    def expected(matrix):
        return dequantized(matrix, 8, 16) if matrix.shape[0] == 256 else dequantized(matrix)

    assert_decoded(tmp_path / "model", pack, settings() | {"dynamic": {"+:.*up_proj": {"bits": 8}}}, expected)


UP = "model.layers.0.mlp.up_proj"


change = put_beside(UP)
DAMAGE = {
    "no scales": (change(".scales", None), f"{UP}.scales is missing, and {UP}.qweight cannot be decoded"),
    "no zero points": (change(".qzeros", None), f"{UP}.qzeros is missing"),
    "too few words": (
        change(".qweight", torch.zeros(11, 256).int()),
        f"{UP} is packed in 11 words a column, too few or many for 96 integers of 4 bits; have the weights saved again",
    ),
    "too few groups": (change(".scales", torch.ones(2, 256).half()), f"{UP} has scales for 2 groups, where 96 inputs"),
    "scales of another width": (change(".scales", torch.ones(3, 255).half()), f"{UP}.scales has shape (3, 255), but"),
    "zero points of another shape": (change(".qzeros", torch.zeros(3, 31).int()), "has shape (3, 31), but the"),
    "infinite scales": (
        change(".scales", torch.full((3, 256), torch.inf)),
        f"{UP}.scales holds scales that are not fi",
    ),
    "no such group": (
        change(".g_idx", torch.full((96,), 3).int()),
        f"{UP}.g_idx names a group that is not among its 3",
    ),
    "a negative group": (change(".g_idx", torch.full((96,), -1).int()), "names a group that is not among"),
    "floats in place of words": (change(".qweight", torch.zeros(12, 256)), f"{UP}.qweight is stored as F32, but its"),
    "indices as a matrix": (change(".g_idx", torch.zeros(2, 48).int()), "has shape (2, 48), but the"),
    "nothing": (change(".qweight", torch.zeros(0, 256).int()), "has shape (0, 256), which is not the sha"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_what_does_not_fit_is_one_clear_line(damage, message, tmp_path):
    error = refused(tmp_path, gptq(), settings(), damage)
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
    assert message in refused(tmp_path, gptq(), settings() | stated)
