"""AutoRound: held against what auto-round 0.16.1 packed and decoded, in the layouts of GPTQ and of AWQ."""

import numpy as np
import pytest
from safetensors.torch import load_file

from tests.checkpoint.formats import test_awq, test_gptq
from tests.quantizing import BASE, decoded, matrices, of_library, refused, repacked

VECTORS = load_file("tests/data/autoround.safetensors")
"""By layout and bits: a matrix (32, 64) as auto-round packed it, and as its layers decode it."""
CASES = sorted({name.rpartition(".")[0] for name in VECTORS})
ROUND = {"quant_method": "auto-round", "bits": 4, "group_size": 32, "sym": True}
PACKS = {
    "GPTQ's layout": (test_gptq.gptq(index=False), ROUND | {"packing_format": "auto_round:auto_gptq"}),
    "GPTQ's layout, zero points in full": (
        test_gptq.gptq(symmetric=False, version=2, index=False),
        ROUND | {"packing_format": "auto_round:exllamav2", "sym": False},
    ),
    "AWQ's layout": (test_awq.awq(), ROUND | {"packing_format": "auto_round:auto_awq"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_matrix_is_decoded_as_auto_round_does(case, tmp_path):
    packing, _, bits = case.rpartition(".")
    said = ROUND | {"packing_format": packing, "bits": int(bits), "sym": False}
    np.testing.assert_allclose(
        *of_library(VECTORS, case, tmp_path, {"quantization_config": said}), rtol=1e-3, atol=1e-6
    )


def test_the_layout_is_that_of_gptq_where_nothing_is_said(tmp_path):
    pack = test_gptq.gptq(index=False)
    first, second = (
        decoded(repacked(BASE, tmp_path / name, pack, **ROUND, **said))
        for name, said in (("a", {}), ("b", {"backend": "auto_round:gptq"}))
    )
    for module in matrices(BASE):
        np.testing.assert_array_equal(first[module], second[module])
        np.testing.assert_allclose(first[module], matrices(BASE)[module], atol=0.1)


def test_single_matrices_may_have_other_bits(tmp_path):
    names = [name for name, matrix in matrices(BASE).items() if matrix.shape[0] == 256]

    def pack(matrix):
        return test_gptq.gptq(bits=8 if matrix.shape[0] == 256 else 4, index=False)(matrix)

    extra = {name: {"bits": 8, "data_type": "int"} for name in names} | {"model.norm": 7}
    stored = decoded(repacked(BASE, tmp_path / "model", pack, **ROUND, extra_config=extra))
    for module, matrix in matrices(BASE).items():
        np.testing.assert_allclose(stored[module], matrix, atol=4e-3 if module in names else 0.1)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"packing_format": "auto_round:nvfp4"}, "NothingToCompare: org/model: the weights are stored by AutoRound in"),
        ({"packing_format": ["auto_round"]}, "NothingToCompare: org/model: the weights are stored by AutoRound in"),
        ({"bits": 8}, "CheckpointError: org/model: model.layers.0.mlp.down_proj has scales for"),
        ({"group_size": 64}, "CheckpointError: org/model: model.layers.0.mlp.down_proj has scales for 8 groups"),
        ({"group_size": None}, "`group_size` of quantization_config must be a positive integer, not None"),
    ],
)
def test_settings_that_do_not_fit_are_one_clear_line(stated, message, tmp_path):
    pack, settings = PACKS["GPTQ's layout"]
    assert message in refused(tmp_path, pack, settings | stated)
