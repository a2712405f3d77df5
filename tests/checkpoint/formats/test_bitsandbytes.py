"""bitsandbytes: written by the library on the CPU, and decoded by its generic code, as its fast one errs (0.50.2)."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from hf_lineage.checkpoint.formats.grid import CODES
from tests.quantizing import assert_decoded

FOUR, EIGHT = ({"quant_method": "bitsandbytes", f"load_in_{bits}bit": True} for bits in (4, 8))
UP = "model.layers.1.mlp.up_proj"
FIRST = "model.layers.0.mlp.up_proj.weight"
WEIGHT, STATE = f"{UP}.weight", f"{UP}.weight.quant_state.bitsandbytes__nf4"
FEW_SCALES = (f"{UP}.SCB", torch.ones(255), f"{UP}.SCB has shape (255,), but the rest of its matrix needs (256,)")


@pytest.fixture(autouse=True)
def interpreted():
    """The library compiles its generic code, which takes longer than all that is done with it here."""
    with torch.compiler.set_stance("force_eager"):
        yield


def four_bits(kind="nf4", nested=False, block=64):
    def pack(matrix):
        from bitsandbytes.functional import quantize_4bit

        packed, state = quantize_4bit(matrix, quant_type=kind, compress_statistics=nested, blocksize=block)
        return {".weight": packed} | {f".weight.{end}": part for end, part in state.as_dict(packed=True).items()}

    return pack


def eight_bits(matrix):
    import bitsandbytes.functional as library

    packed, scales, _ = library.int8_vectorwise_quant(matrix.half())
    return {".weight": packed, ".SCB": scales, ".weight_format": torch.tensor(0, dtype=torch.uint8)}


def dequantized(parts):
    import bitsandbytes.functional as library
    from bitsandbytes.backends.default.ops import _dequantize_4bit_compute

    if ".SCB" in parts:
        return library.int8_vectorwise_dequant(parts[".weight"], parts[".SCB"])
    ends = {end.removeprefix(".weight."): part for end, part in parts.items() if end != ".weight"}
    state = library.QuantState.from_dict(ends, device=torch.device("cpu"))
    scales = library.dequantize_blockwise(state.absmax, state.state2) + state.offset if state.nested else state.absmax
    packed = parts[".weight"].reshape(-1)
    return _dequantize_4bit_compute(packed, scales, state.code, state.blocksize, state.shape, torch.float32)


PACKS = {
    "NF4": (four_bits(), FOUR),
    "FP4": (four_bits("fp4"), FOUR),
    "NF4, scales quantized too": (four_bits(nested=True), FOUR),
    "FP4, scales quantized too": (four_bits("fp4", nested=True), FOUR),
    "NF4, large blocks": (four_bits(block=1024), FOUR),
    "int8": (eight_bits, EIGHT),
}


@pytest.mark.parametrize(("pack", "settings"), PACKS.values(), ids=PACKS)
def test_codes_and_decoded_matrices_are_those_of_the_library(pack, settings, tmp_path):
    from bitsandbytes.functional import get_4bit_type

    assert_decoded(tmp_path / "model", pack, settings, lambda matrix: dequantized(pack(matrix)), rtol=3e-7)
    for kind, codes in CODES.items():
        np.testing.assert_allclose(codes, get_4bit_type(kind, device="cpu").numpy(), rtol=1e-6)


def describe(**changes):
    """Say something else in the JSON beside one matrix."""

    def change(tensors):
        stated = json.loads(bytes(tensors[STATE].tolist())) | changes
        tensors[STATE] = torch.tensor([*json.dumps(stated).encode()], dtype=torch.uint8)

    return change


DAMAGE: list[Any] = [
    (f"{WEIGHT}.absmax", None, f"{WEIGHT}.absmax is missing, and"),
    (f"{WEIGHT}.quant_map", None, f"{WEIGHT}.quant_map is missing"),
    (STATE, describe(shape=[96, 256]), f"{UP} has another shape or other blocks than matrices of this name"),
    (STATE, describe(shape=[10**9, 10**9]), f"{UP} has another shape"),
    (STATE, describe(shape=[24576]), f"{WEIGHT}.quant_state does not give shape and blocks"),
    (STATE, describe(blocksize=128), f"{UP} has another shape or other blocks"),
    (STATE, describe(blocksize=63), "does not give shape and blocks;"),
    (STATE, torch.zeros(10).byte(), "quant_state does not give shape and blocks"),
    (STATE, torch.zeros(10**5).byte(), f"{STATE} takes 100000 bytes, too many for a description"),
    (f"{WEIGHT}.quant_map", torch.zeros(16), f"{WEIGHT}.quant_map is not the code of nf4"),
    (f"{WEIGHT}.absmax", torch.ones(3), f"{WEIGHT}.absmax has shape (3,), but the"),
    (f"{WEIGHT}.absmax", torch.full((384,), torch.nan), f"{WEIGHT}.absmax holds scales that"),
    (WEIGHT, torch.zeros(5, 1).byte(), f"{UP} does not hold as many numbers as its sh"),
    # The first of all layers describes the others: wherever it is wrong, it is the error of that one.
    (f"{FIRST}.quant_state.bitsandbytes__nf4", torch.tensor([*b"[]"]).byte(), f"{FIRST}.quant_state does not give"),
]
DAMAGED = [(four_bits(), FOUR, *row) for row in DAMAGE] + [(eight_bits, EIGHT, *FEW_SCALES)]
