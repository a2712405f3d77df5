"""The plain format: floating-point numbers as they are; anything else is listed, and refused where it is read."""

from pathlib import Path

import pytest

from hf_lineage.checkpoint.formats.plain import CAST, FLOATS, PLAIN
from hf_lineage.checkpoint.stored import StoredTensor
from hf_lineage.checkpoint.tensor import DTYPES

QUANTIZED = {"quantization_config": {"quant_method": "gptq"}}


def stored(**dtypes):
    return {name: StoredTensor(Path("file"), dtype, (2, 3), 0) for name, dtype in dtypes.items()}


@pytest.mark.parametrize(
    ("tensors", "config", "recognised"),
    [
        (stored(a="F32", b="BF16"), {}, True),
        (stored(a="F32"), QUANTIZED, True),  # quantized only once it is loaded
        (stored(a="F32", counter="I64"), {}, True),
        (stored(a="F32", packed="I32"), QUANTIZED, False),
        (stored(a="F32", packed="I32"), {"quantization_config": None}, True),
        ({}, QUANTIZED, True),
    ],
)
def test_it_is_any_checkpoint_but_one_that_says_it_is_quantized_and_is(tensors, config, recognised):
    assert PLAIN.recognises(tensors, config) is recognised


@pytest.mark.parametrize("dtype", DTYPES)
def test_floating_point_numbers_are_read_and_others_are_refused(dtype):
    (info,) = PLAIN.tensors(stored(a=dtype), {}).values()
    assert (info.shape, info.parts) == ((2, 3), ("a",))
    if dtype in FLOATS | CAST:
        assert info.refusal == ""
    else:
        assert info.refusal.startswith(f"is stored as {dtype}, and config.json does not say how")
