"""bitsandbytes: written and decoded by the library itself, on the CPU.

Decoded by its generic code for all devices: the fast code for the CPU takes the wrong scales where the width of a
matrix is no multiple of the block (0.50.2), such as the 96 of the example.
"""

import functools
import json

import numpy as np
import pytest
import torch

from hf_lineage.checkpoint.formats.grid import CODES
from tests.quantizing import assert_decoded, put, put_beside, refused

FOUR = {"quant_method": "bitsandbytes", "load_in_4bit": True}
EIGHT = {"quant_method": "bitsandbytes", "load_in_8bit": True}


@pytest.fixture(autouse=True)
def interpreted():
    """The library compiles its generic code, which takes longer than all that is done with it here."""
    with torch.compiler.set_stance("force_eager"):
        yield


@functools.cache
def quantizer(kind, nested, block):
    import bitsandbytes.functional as library

    return functools.partial(library.quantize_4bit, quant_type=kind, compress_statistics=nested, blocksize=block)


def four_bits(kind="nf4", nested=False, block=64):
    def pack(matrix):
        packed, state = quantizer(kind, nested, block)(matrix)
        stored = {f".weight.{end}": part for end, part in state.as_dict(packed=True).items()}
        return {".weight": packed, **stored}

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
    return _dequantize_4bit_compute(
        parts[".weight"].reshape(-1), scales, state.code, state.blocksize, state.shape, torch.float32
    )


PACKS = {
    "NF4": (four_bits(), FOUR),
    "FP4": (four_bits("fp4"), FOUR),
    "NF4, scales quantized too": (four_bits(nested=True), FOUR),
    "FP4, scales quantized too": (four_bits("fp4", nested=True), FOUR),
    "NF4, large blocks": (four_bits(block=1024), FOUR),
    "int8": (eight_bits, EIGHT),
}


@pytest.mark.parametrize("name", PACKS)
def test_decoded_matrices_are_those_of_the_library(name, tmp_path):
    pack, settings = PACKS[name]
    assert_decoded(tmp_path / "model", pack, settings, lambda matrix: dequantized(pack(matrix)), rtol=3e-7)


@pytest.mark.parametrize("kind", CODES)
def test_the_codes_are_those_of_the_library(kind):
    import bitsandbytes.functional as library

    np.testing.assert_allclose(CODES[kind], library.get_4bit_type(kind, device="cpu").numpy(), rtol=1e-6)


UP = "model.layers.1.mlp.up_proj"
END = ".weight.quant_state.bitsandbytes__nf4"
STATE = f"{UP}{END}"


def stated(**changes):
    """Say something else in the JSON beside one matrix."""

    def change(tensors):
        said = json.loads(bytes(tensors[STATE].tolist()))
        tensors[STATE] = torch.tensor(list(json.dumps(said | changes).encode()), dtype=torch.uint8)

    return change


change = put_beside(UP)
DAMAGE = {
    "no scales": (change(".weight.absmax", None), f"{UP}.weight.absmax is missing, and"),
    "no code": (change(".weight.quant_map", None), f"{UP}.weight.quant_map is missing"),
    "another shape": (stated(shape=[96, 256]), f"{UP} has another shape or other blocks than matrices of this name"),
    "an absurd shape": (stated(shape=[10**9, 10**9]), f"{UP} has another shape"),
    "a shape that is none": (stated(shape=[24576]), f"{UP}.weight.quant_state does not give the shape and the blocks"),
    "another block": (stated(blocksize=128), f"{UP} has another shape or other blocks"),
    "an odd block": (stated(blocksize=63), "does not give the shape and the blocks of a matrix;"),
    "no description": (
        change(END, torch.zeros(10).byte()),
        "quant_state does not give the shape and the blocks of a m",
    ),
    "a long one": (change(END, torch.zeros(10**5).byte()), f"{STATE} takes 100000 bytes, too many for a description"),
    "another code": (change(".weight.quant_map", torch.zeros(16)), f"{UP}.weight.quant_map is not the code of nf4"),
    "too few scales": (change(".weight.absmax", torch.ones(3)), f"{UP}.weight.absmax has shape (3,), but the"),
    "not a number": (change(".weight.absmax", torch.full((384,), torch.nan)), f"{UP}.weight.absmax holds scales that"),
    "too few numbers": (change(".weight", torch.zeros(5, 1).byte()), f"{UP} does not hold as many numbers as its sh"),
    "too few rows": (
        change(".SCB", torch.ones(255)),
        f"{UP}.SCB has shape (255,), but the rest of its matrix needs (256,)",
    ),
    "the first of all layers": (
        put(STATE.replace(".1.", ".0."), torch.tensor([*b"[]"], dtype=torch.uint8)),
        "model.layers.0.mlp.up_proj.weight.quant_state does not give",
    ),
}
"""The first of all layers describes the others: wherever it is wrong, it is the error of that one."""


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_what_does_not_fit_is_one_clear_line(damage, message, tmp_path):
    eight = message.startswith(f"{UP}.SCB")
    error = refused(tmp_path, *((eight_bits, EIGHT) if eight else (four_bits(), FOUR)), damage)
    assert error.startswith("CheckpointError: ")
    assert message in error
