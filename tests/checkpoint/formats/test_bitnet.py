"""BitNet: packed by transformers, for layers that multiply by the scale and for those that divide by it."""

import numpy as np
import pytest
import torch

from tests.models import spoil
from tests.quantizing import BASE, decoded, matrices, refused, repacked

BITNET = {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"}


def ternary(matrix):
    """-1, 0 and 1, and the scale that is multiplied with them, as the layers of transformers find it."""
    scale = matrix.abs().mean()
    return (matrix / scale).round().clamp(-1, 1), scale


def bitnet(divides=False):
    from transformers.integrations.bitnet import pack_weights

    def pack(matrix):
        numbers, scale = ternary(matrix)
        return {".weight": pack_weights(numbers.clone()), ".weight_scale": (1 / scale if divides else scale).reshape(1)}

    return pack


PACKS = {
    "multiplied": (bitnet(), BITNET),
    "divided": (bitnet(divides=True), BITNET | {"linear_class": "bitlinear"}),
    "divided by default": (bitnet(divides=True), {"quant_method": "bitnet"}),
}


@pytest.mark.parametrize("name", PACKS)
def test_decoded_matrices_are_those_that_transformers_packed(name, tmp_path):
    pack, settings = PACKS[name]
    stored = decoded(repacked(BASE, tmp_path / "model", pack, **settings))
    for module, matrix in matrices(BASE).items():
        numbers, scale = ternary(matrix)
        np.testing.assert_allclose(stored[module], (numbers * scale).numpy(), rtol=3e-7)


def test_a_byte_holds_four_rows_as_the_documentation_of_transformers_shows(tmp_path):
    """The example in the docstring of `unpack_weights`."""

    def pack(matrix):
        packed = torch.tensor([[0b10100001, 0b00011000], [0b10010000, 0b00001010]], dtype=torch.uint8)
        return {".weight": packed, ".weight_scale": torch.ones(1)}

    expected = [[0, -1], [-1, 1], [-1, 1], [-1, 1], [1, 0], [0, -1], [1, -1], [1, -1]]
    stored = decoded(repacked(BASE, tmp_path / "model", pack, **BITNET))
    assert stored["model.layers.0.mlp.up_proj"].tolist() == expected


@pytest.mark.parametrize("changes", [{"use_rms_norm": True}, {"linear_class": "other"}, {"linear_class": [7]}])
def test_layers_that_compute_something_else_are_not_judged(changes, tmp_path):
    error = refused(repacked(BASE, tmp_path / "model", bitnet(), **BITNET | changes))
    assert "NothingToCompare: org/model: the weights are stored as BitNet for layers that compute more than" in error


UP = "model.layers.0.mlp.up_proj"


@pytest.mark.parametrize(
    ("end", "part", "message"),
    [
        (".weight_scale", torch.ones(2), f"{UP} has 2 scales, not one; have the weights saved again"),
        (".weight_scale", torch.tensor([torch.nan]), f"{UP}.weight_scale holds scales that are not finite"),
        (".weight_scale", torch.ones(1, dtype=torch.int8), f"{UP}.weight_scale is stored as I8, but its format needs"),
        (".weight", torch.zeros(4, dtype=torch.uint8), f"{UP}.weight has shape (4,), which is not the shape of a"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(end, part, message, tmp_path):
    folder = repacked(BASE, tmp_path / "model", bitnet(), **BITNET)
    error = refused(spoil(folder, lambda tensors: tensors.update({f"{UP}{end}": part})))
    assert error.startswith("CheckpointError: ")
    assert message in error


def test_a_scale_of_zero_divides_nothing(tmp_path):
    folder = repacked(BASE, tmp_path / "model", bitnet(), **BITNET | {"linear_class": "bitlinear"})
    error = refused(spoil(folder, lambda tensors: tensors.update({f"{UP}.weight_scale": torch.zeros(1)})))
    assert f"{UP}.weight_scale holds scales that are not finite" in error
