"""The checkpoint in a model.bin: the numbers that CTranslate2's converter was given, decoded as its own code does."""

import ml_dtypes
import numpy as np
import pytest
from ctranslate2.specs import common_spec, model_spec

from hf_lineage.checkpoint.foreign.ctranslate2.form import CTRANSLATE2
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.reference import RepoRef
from tests.checkpoint.foreign.ctranslate2.test_header import file, variable

MATRIX = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
FILE = "model.bin"


class Specification(model_spec.ModelSpec):
    def __init__(self):
        super().__init__()
        self.linear = common_spec.LinearSpec()
        self.linear.weight = MATRIX.copy()
        self.linear.bias = MATRIX[0].copy()
        self.again = common_spec.LinearSpec()
        self.again.weight = MATRIX.copy()
        self.conv = common_spec.Conv1DSpec()
        self.conv.weight = MATRIX.reshape(6, 2, 2).copy()

    @property
    def name(self):
        return "Specification"


def written(folder, quantization=None):
    specification = Specification()
    specification.validate()
    specification.optimize(quantization)
    specification._serialize(str(folder / FILE))
    return RepoRef("org/model", folder)


@pytest.mark.parametrize(
    ("quantization", "kept"),
    [
        (None, MATRIX),
        ("float32", MATRIX),
        ("float16", MATRIX.astype(np.float16)),
        ("bfloat16", MATRIX.astype(ml_dtypes.bfloat16)),
        ("int8", None),
        ("int8_float16", None),
        ("int16", None),
    ],
)
def test_matrices_are_what_the_converter_stored(quantization, kept, tmp_path):
    checkpoint = CTRANSLATE2.open(written(tmp_path, quantization), [FILE])
    assert set(checkpoint.tensors) == {"linear/weight", "linear/bias", "again/weight", "conv/weight"}
    if kept is None:
        numbers, scale = (
            (127, np.abs(MATRIX).max(1, keepdims=True)) if "int8" in quantization else (2**10, np.abs(MATRIX).max())
        )
        kept = np.rint(MATRIX * (numbers / scale)) / (numbers / scale)
    for name in ("linear/weight", "again/weight", "conv/weight"):
        found = checkpoint.read(name).astype(np.float32)
        np.testing.assert_allclose(found.reshape(6, 4), np.asarray(kept, np.float32), rtol=1e-6)
    np.testing.assert_allclose(checkpoint.read("linear/bias").astype(np.float32), MATRIX[0], rtol=1e-2)


def test_what_is_quantized_otherwise_is_said(tmp_path):
    (tmp_path / FILE).write_bytes(file(variable(kind=3), variable(b"w_zero", (2, 1), 3), variable(b"v", kind=1)))
    checkpoint = CTRANSLATE2.open(RepoRef("org/model", tmp_path), [FILE])
    assert set(checkpoint.tensors) == {"w", "v"}
    for name in checkpoint.tensors:
        with pytest.raises(NothingToCompare, match=f"{name} is stored as AWQ in CTranslate2, which is not supported"):
            checkpoint.read(name)


@pytest.mark.parametrize(
    "scale", [variable(b"w_scale", (3,)), variable(b"w_scale", (2,), 4), variable(b"w_scale", (2, 2))]
)
def test_scales_that_do_not_fit_are_refused(scale, tmp_path):
    (tmp_path / FILE).write_bytes(file(variable(kind=1), scale))
    with pytest.raises(CheckpointError, match=r"org/model: model\.bin: w of \(2, 2\) has scales of"):
        CTRANSLATE2.open(RepoRef("org/model", tmp_path), [FILE])


def test_scales_of_nothing_give_what_is_found_where_weights_are_compared(tmp_path):
    (tmp_path / FILE).write_bytes(file(variable(kind=1, numbers=b"\1\0\1\1"), variable(b"w_scale", (2,))))
    found = CTRANSLATE2.open(RepoRef("org/model", tmp_path), [FILE]).read("w")
    assert not np.isfinite(found).any()
