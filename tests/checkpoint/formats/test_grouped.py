"""GPTQ as gptqmodel writes and decodes it, AWQ as AutoAWQ does, and what auto-round 0.16.1 stored and decoded."""

from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.checkpoint.conftest import words
from tests.quantizing import BASE, assert_decoded, decoded, matrices, of_library, repacked

GROUP = 32
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
AWQ: dict[str, Any] = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True}
ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
AWQ_VARIANTS = {
    "zero points": ({}, AWQ),
    "no zero points": ({"symmetric": True}, AWQ | {"zero_point": False}),
    "whole columns": ({"group": -1}, AWQ | {"group_size": -1}),
    "upper case": ({}, AWQ | {"version": "GEMM"}),
}
VECTORS = load_file("tests/data/autoround.safetensors")
"""By layout and bits: a matrix (32, 64) as auto-round packed it, and as its layers decode it."""
CASES = sorted({name.rpartition(".")[0] for name in VECTORS})
ROUND = {"quant_method": "auto-round", "bits": 4, "group_size": 32, "sym": True}
UP, DOWN = "model.layers.0.mlp.up_proj", "model.layers.0.mlp.down_proj"
DAMAGE = [
    (".scales", None, f"{UP}.scales is missing, and {UP}.qweight cannot be decoded"),
    (".qzeros", None, f"{UP}.qzeros is missing"),
    (".qweight", torch.zeros(11, 256).int(), f"{UP} is packed in 11 words a column, wrong for 96 integers"),
    (".scales", torch.ones(2, 256).half(), f"{UP} has scales for 2 groups of 32, which do not"),
    (".scales", torch.ones(3, 255).half(), f"{UP}.scales has shape (3, 255), but"),
    (".qzeros", torch.zeros(3, 31).int(), f"{UP}.qzeros has shape (3, 31), but the"),
    (".scales", torch.full((3, 256), torch.inf), f"{UP}.scales holds scales that are not"),
    (".g_idx", torch.full((96,), 3).int(), f"{UP}.g_idx names a group that is not among its 3"),
    (".g_idx", torch.full((96,), -1).int(), "names a group that is not among"),
    (".qweight", torch.zeros(12, 256), f"{UP}.qweight is stored as F32, but its"),
    (".g_idx", torch.zeros(2, 48).int(), "has shape (2, 48), but the"),
    (".qweight", torch.zeros(0, 256).int(), "has shape (0, 256), which is not the sha"),
]
AWQ_DAMAGE = [
    (".qzeros", None, f"{UP}.qzeros is missing, and {UP}.qweight cannot be decoded"),
    (".scales", None, f"{UP}.scales is missing"),
    (".qzeros", torch.zeros(3, 31).int(), f"{UP}.qzeros has shape (3, 31), but the rest of"),
    (".scales", torch.full((3, 256), torch.nan), f"{UP}.scales holds scales that are not finite"),
    (".qweight", torch.zeros(96).int(), f"{UP}.qweight has shape (96,), which is not the shape of"),
]
NOT_DECODED = "NothingToCompare: org/model: the weights are stored"
SETTINGS: list[Any] = [
    ({"bits": 3}, f"CheckpointError: org/model: {DOWN} is packed in 32 words a column,"),
    ({"bits": 5}, "is packed in 32 words a column, wrong for 256 integers of 5 bits"),
    ({"bits": None}, "CheckpointError: org/model: config.json: `bits` must be a positive"),
    ({"bits": 10**12}, "`bits` must be a positive integer, not 1000000000000"),
    ({"group_size": 64}, "has scales for 8 groups of 64, which do not fit 256 inputs"),
    ({"group_size": [32]}, "`group_size` must be a positive integer, not [32]"),
    ({"checkpoint_format": "marlin"}, f"{NOT_DECODED} as GPTQ in the layout m"),
    ({"checkpoint_format": ["gptq"]}, f"{NOT_DECODED} as GPTQ in the layout ["),
    (AWQ | {"version": "gemv"}, f"{NOT_DECODED} as AWQ in the layout gemv; hf"),
    (AWQ | {"version": ["gemm"]}, f"{NOT_DECODED} as AWQ in the layout ['gemm'];"),
    (AWQ | {"bits": 8}, "CheckpointError: org/model: config.json: AWQ packs integers of 4 bits, and `bits` says 8"),
    (AWQ | {"group_size": 128}, f"CheckpointError: org/model: {DOWN}.scales has shape (8, 96), but"),
    (AWQ | {"group_size": 0}, "`group_size` must be a positive integer, not 0"),
    (ROUND | {"packing_format": "auto_round:nvfp4"}, f"{NOT_DECODED} by AutoRound in"),
    (ROUND | {"packing_format": ["auto_round"]}, f"{NOT_DECODED} by AutoRound in"),
    (ROUND | {"bits": 8}, f"CheckpointError: org/model: {DOWN} has scales for"),
    (ROUND | {"group_size": 64}, f"CheckpointError: org/model: {DOWN} has scales for 8 groups"),
    (ROUND | {"group_size": None}, "`group_size` must be a positive integer, not None"),
]


def quantized(matrix, bits=4, group=GROUP, symmetric=True, order=False):
    """Integers (in, out), scales and zero points (groups, out), and the group of each input."""
    columns, most = matrix.T, 2**bits - 1
    groups = torch.arange(len(columns)) // (len(columns) if group == -1 else group)
    if order:
        groups = groups[torch.randperm(len(columns), generator=torch.Generator().manual_seed(3))]
    ends = [columns[groups == number].aminmax(dim=0) for number in range(int(groups.max()) + 1)]
    low, high = torch.stack([end.min for end in ends]).clamp(max=0), torch.stack([end.max for end in ends]).clamp(min=0)
    high = torch.maximum(-low, high) if symmetric else high
    low = -high if symmetric else low
    scales = ((high - low) / most).clamp(min=1e-6).half()
    zeros = torch.full_like(low, 2 ** (bits - 1)) if symmetric else (-low / scales.float()).round().clamp(1, most)
    integers = (columns / scales.float()[groups] + zeros[groups]).round().clamp(0, most).int()
    return integers, scales, zeros.int(), groups.int()


def packed(integers, bits):
    return torch.from_numpy(words(integers.numpy(), bits).view(np.int32))


def gptq(bits=4, group=GROUP, symmetric=True, order=False, version=1, index=True):
    def pack(matrix):
        if bits == 3 and len(matrix) % 32:  # what cannot be packed stays as it is
            return {".weight": matrix}
        integers, scales, zeros, groups = quantized(matrix, bits, group, symmetric, order)
        zeros = zeros - (1 if version == 1 else 0)
        stored = {".qweight": packed(integers.T, bits).T, ".qzeros": packed(zeros, bits), ".scales": scales}
        return stored | ({".g_idx": groups} if index else {})

    return pack


def dequantized(matrix, bits=4, group=GROUP, symmetric=True, order=False, **_):
    """`dequantize_weight` of gptqmodel's TorchLinear, of the integers before they were packed."""
    if bits == 3 and len(matrix) % 32:
        return matrix
    integers, scales, zeros, groups = quantized(matrix, bits, group, symmetric, order)
    return (scales.float()[groups] * (integers - zeros[groups]).float()).T


def settings(bits=4, group=GROUP, symmetric=True, order=False, version=1, index=True):
    sizes = {"bits": bits, "group_size": group, "sym": symmetric, "desc_act": order}
    return {"quant_method": "gptq", **sizes, "checkpoint_format": {1: "gptq", 2: "gptq_v2"}[version]}


@pytest.mark.few(4)
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_decoded_matrices_are_those_of_gptqmodel(variant, tmp_path):
    model, pack, stated = tmp_path / "model", gptq(**variant), settings(**variant)
    assert_decoded(model, pack, stated, lambda matrix: dequantized(matrix, **variant))


def test_where_the_settings_are_dynamic_matrices_of_other_bits_are_read_by_shape(tmp_path):
    dynamic, other = settings() | {"dynamic": {"+:.*up_proj": {"bits": 8}}}, {"bits": 8, "group": 16}

    def of(matrix):
        return other if matrix.shape[0] == 256 else {}

    pack, expected = (lambda one: gptq(**of(one))(one)), (lambda one: dequantized(one, **of(one)))
    assert_decoded(tmp_path / "model", pack, dynamic, expected)


def awq(symmetric=False, group=GROUP):
    """As AutoAWQ's `from_linear`: eight columns, in this order, into one of words."""

    def pack(matrix):
        integers, scales, zeros, _ = quantized(matrix, 4, group, symmetric)
        weights, points = (packed(one.reshape(-1, 8)[:, ORDER].reshape(one.shape), 4) for one in (integers, zeros))
        return {".qweight": weights, ".scales": scales} | ({} if symmetric else {".qzeros": points})

    return pack


@pytest.mark.few(2)
@pytest.mark.parametrize(("variant", "stated"), AWQ_VARIANTS.values(), ids=AWQ_VARIANTS)
def test_decoded_matrices_of_awq_are_those_of_compressed_tensors(variant, stated, tmp_path):
    """Integers around zero, scales and zero points, as it converts them, and then its formula."""
    from compressed_tensors.entrypoints.convert.converters import AutoAWQConverter

    library, pack = AutoAWQConverter(group_size=stated["group_size"], zero_point=stated["zero_point"]), awq(**variant)

    def expected(matrix):
        parts = pack(matrix)
        given = (parts.get(end) for end in (".qweight", ".scales", ".qzeros"))
        integers, scales, zeros = library._convert_gemm_module(*given)
        zeros = torch.zeros(scales.shape) if zeros is None else zeros
        size = integers.shape[1] // scales.shape[1]
        return (integers - zeros.repeat_interleave(size, 1)) * scales.float().repeat_interleave(size, 1)

    assert_decoded(tmp_path / "model", pack, stated, expected)


PACKS = {
    "GPTQ's layout": (gptq(index=False), ROUND | {"packing_format": "auto_round:auto_gptq"}),
    "AWQ's layout": (awq(), ROUND | {"packing_format": "auto_round:auto_awq"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_matrix_is_decoded_as_auto_round_does(case, tmp_path):
    packing, _, bits = case.rpartition(".")
    said = {"quantization_config": ROUND | {"packing_format": packing, "bits": int(bits), "sym": False}}
    np.testing.assert_allclose(*of_library(VECTORS, case, tmp_path, said), rtol=1e-3, atol=1e-6)


def test_where_nothing_is_said_the_layout_is_that_of_gptq_and_bits_may_differ(tmp_path):
    names = [name for name, matrix in matrices(BASE).items() if matrix.shape[0] == 256]
    extra = {name: {"bits": 8, "data_type": "int"} for name in names} | {"model.norm": 7}

    def pack(matrix):
        return gptq(bits=8 if matrix.shape[0] == 256 else 4, index=False)(matrix)

    first, second, mixed = (
        decoded(repacked(BASE, tmp_path / name, packing, **ROUND, **said))
        for name, packing, said in (
            ("a", gptq(index=False), {}),
            ("b", gptq(index=False), {"backend": "auto_round:gptq"}),
            ("c", pack, {"extra_config": extra}),
        )
    )
    for module, matrix in matrices(BASE).items():
        np.testing.assert_array_equal(first[module], second[module])
        np.testing.assert_allclose(first[module], matrix, atol=0.1)
        np.testing.assert_allclose(mixed[module], matrix, atol=4e-3 if module in names else 0.1)


BY_METHOD = {"gptq": gptq(), "awq": awq(), "auto-round": gptq(index=False)}
DAMAGED = [(gptq(), settings(), f"{UP}{end}", part, message) for end, part, message in DAMAGE]
DAMAGED += [(awq(), AWQ, f"{UP}{end}", part, message) for end, part, message in AWQ_DAMAGE]
ODD_SETTINGS = [(settings() | stated, message) for stated, message in SETTINGS]
DAMAGED += [(BY_METHOD[stated["quant_method"]], stated, "", None, message) for stated, message in ODD_SETTINGS]
