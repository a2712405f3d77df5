"""GPTQ: written as gptqmodel packs it, decoded as gptqmodel dequantizes it (its loops stand here, in torch)."""

import numpy as np
import pytest
import torch

from tests.models import spoil
from tests.quantizing import BASE, decoded, matrices, refused, repacked

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


def dequantized(parts, bits, version):
    """`dequantize_weight` of gptqmodel's TorchLinear, after its conversion of the zero points."""
    qweight, qzeros, scales = parts[".qweight"], parts[".qzeros"], parts[".scales"].float()
    groups = parts.get(".g_idx", torch.arange(len(qweight) * 32 // bits) // GROUP)
    if bits == 3:
        shifts = torch.tensor(
            [[0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 0], [0, 1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31],
             [0, 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 0]], dtype=torch.int32,
        ).reshape(1, 3, 12)  # fmt: skip
        zeros = qzeros.reshape(qzeros.shape[0], qzeros.shape[1] // 3, 3, 1).expand(-1, -1, -1, 12)
        zeros = zeros >> shifts.unsqueeze(0)
        zeros[:, :, 0, 10] = (zeros[:, :, 0, 10] & 0x3) | ((zeros[:, :, 1, 0] << 2) & 0x4)
        zeros[:, :, 1, 11] = (zeros[:, :, 1, 11] & 0x1) | ((zeros[:, :, 2, 0] << 1) & 0x6)
        zeros = zeros & 0x7
        zeros = torch.cat([zeros[:, :, 0, :11], zeros[:, :, 1, 1:12], zeros[:, :, 2, 1:11]], dim=2).reshape(
            scales.shape
        )
        weight = qweight.reshape(qweight.shape[0] // 3, 3, 1, qweight.shape[1]).expand(-1, -1, 12, -1)
        weight = (weight >> shifts.unsqueeze(-1)) & 0x7
        weight[:, 0, 10] = (weight[:, 0, 10] & 0x3) | ((weight[:, 1, 0] << 2) & 0x4)
        weight[:, 1, 11] = (weight[:, 1, 11] & 0x1) | ((weight[:, 2, 0] << 1) & 0x6)
        weight = weight & 0x7
        weight = torch.cat([weight[:, 0, :11], weight[:, 1, 1:12], weight[:, 2, 1:11]], dim=1)
    else:
        shifts = torch.arange(0, 32, bits, dtype=torch.int32)
        most = 2**bits - 1
        zeros = (qzeros.unsqueeze(2).expand(-1, -1, len(shifts)) >> shifts) & most
        zeros = zeros.reshape(len(qzeros), -1)[:, : scales.shape[1]]
        weight = (qweight.unsqueeze(1).expand(-1, len(shifts), -1) >> shifts[:, None]) & most
    weight = weight.reshape(-1, weight.shape[2])
    if version == 1:
        zeros = (zeros + 1) & (2**bits - 1)
    groups = groups.long()
    return (scales[groups] * (weight - zeros[groups]).float()).T


@pytest.mark.few(4)
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_decoded_matrices_are_those_of_gptqmodel(variant, tmp_path):
    pack = gptq(**variant)
    stored = decoded(repacked(BASE, tmp_path / "model", pack, **settings(**variant)))
    for module, matrix in matrices(BASE).items():
        parts = pack(matrix)
        if ".qweight" in parts:
            expected = dequantized(parts, variant.get("bits", 4), variant.get("version", 1))
            np.testing.assert_array_equal(stored[module], expected.numpy(), strict=True)


def test_matrices_of_other_bits_are_read_by_their_shape_where_the_settings_are_dynamic(tmp_path):
    def pack(matrix):
        return gptq(bits=8, group=16)(matrix) if matrix.shape[0] == 256 else gptq()(matrix)

    stored = decoded(repacked(BASE, tmp_path / "model", pack, **settings(), dynamic={"+:.*up_proj": {"bits": 8}}))
    for module, matrix in matrices(BASE).items():
        bits = 8 if matrix.shape[0] == 256 else 4
        np.testing.assert_array_equal(stored[module], dequantized(pack(matrix), bits, 1).numpy())


UP = "model.layers.0.mlp.up_proj"


def change(end, part):
    """Replace a part of one matrix; None removes it."""

    def changed(tensors):
        tensors.pop(f"{UP}{end}")
        if part is not None:
            tensors[f"{UP}{end}"] = part

    return changed


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
    "scales that are infinite": (
        change(".scales", torch.full((3, 256), torch.inf).half()),
        f"{UP}.scales holds scales that are not finite",
    ),
    "a group that is not there": (
        change(".g_idx", torch.full((96,), 3).int()),
        f"{UP}.g_idx names a group that is not among its 3",
    ),
    "a negative group": (change(".g_idx", torch.full((96,), -1).int()), "names a group that is not among"),
    "floats in place of words": (
        change(".qweight", torch.zeros(12, 256)),
        f"{UP}.qweight is stored as F32, but its format",
    ),
    "indices as a matrix": (change(".g_idx", torch.zeros(2, 48).int()), "has shape (2, 48), but the"),
    "nothing": (change(".qweight", torch.zeros(0, 256).int()), "has shape (0, 256), which is not the sha"),
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
