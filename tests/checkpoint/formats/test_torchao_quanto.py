"""quanto: matrices of one byte to a number, held against what optimum-quanto 0.2.7 stored and decoded."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hf_lineage.errors import NothingToCompare
from tests.quantizing import of_library, put, refused

VECTORS = load_file("tests/data/quanto.safetensors")
"""By type: a matrix (6, 128) as optimum-quanto stored it, and as it decoded it."""
BYTES = ("qint8", "qfloat8_e4m3fn", "qfloat8_e5m2")


def rows(dtype):
    """A packing with a scale for each row."""

    def pack(matrix):
        most = 127.0 if dtype == torch.int8 else torch.finfo(dtype).max
        scales = matrix.abs().amax(dim=1, keepdim=True) / most
        numbers = matrix / scales
        return {
            ".weight._data": (numbers.round() if dtype == torch.int8 else numbers).to(dtype),
            ".weight._scale": scales,
            ".input_scale": torch.tensor(1.0),
            ".output_scale": torch.tensor(1.0),
        }

    return pack


PACKS = {"qint8": rows(torch.int8), "qfloat8": rows(torch.float8_e4m3fn)}


@pytest.mark.parametrize("name", BYTES)
def test_a_matrix_is_decoded_as_quanto_does(name, tmp_path):
    np.testing.assert_array_equal(*of_library(VECTORS, name, tmp_path, {}), strict=True)


def test_fewer_bits_are_refused_with_what_to_check(tmp_path):
    with pytest.raises(NothingToCompare) as caught:
        of_library(VECTORS, "qint4", tmp_path, {})
    assert str(caught.value) == (
        "org/model: the weights are stored by quanto with fewer than eight bits, and their shapes are not stored; "
        "check the release in F16, BF16 or F32 instead"
    )


UP = "model.layers.0.mlp.up_proj"


@pytest.mark.parametrize(
    ("end", "part", "message"),
    [
        ("_scale", None, f"CheckpointError: org/model: {UP}.weight._scale is missing, and"),
        (
            "_scale",
            torch.ones(255, 1),
            f"{UP} has scales of shape (255, 1), which do not fit the rows of a matrix of (2",
        ),
        ("_scale", torch.full((256, 1), torch.nan), f"{UP}.weight._scale holds scales that are not finite"),
        ("_data", torch.zeros(256, 96, dtype=torch.int32), f"{UP}.weight._data is stored as I32, but its format needs"),
        ("_data", torch.zeros(256, dtype=torch.int8), "has shape (256,), which is not the shape of a matrix"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(end, part, message, tmp_path):
    damage = put(f"{UP}.weight.{end}", part)
    assert message in refused(tmp_path, rows(torch.int8), {}, damage)
