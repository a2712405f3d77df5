"""A tensor as a model loads it, and every stored number as the one in float32 that NumPy makes of it."""

import warnings

import ml_dtypes
import numpy as np
import pytest
import torch

from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.stored import header
from hf_lineage.checkpoint.tensor import DTYPES, TensorInfo, as_stored, single, widen
from hf_lineage.errors import NothingToCompare
from tests.models import WEIGHTS, tiny_llama

HALVES = np.arange(2**16, dtype=np.uint16).view(np.float16)  # all numbers
SMALL = (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
FINITE, ODD = HALVES[np.isfinite(HALVES)], (np.inf, -np.inf, np.nan)
NORM, HEAD = "model.norm.weight", "model.embed_tokens.weight"


def everything(dtype):
    size = np.dtype(dtype).itemsize
    return np.arange(2 ** (8 * size), dtype=f"u{size}").view(dtype)


def same(found, stored):
    """Assert that these are the stored numbers, to the sign of zero, as NumPy converts them."""
    assert found.dtype == np.float32
    with np.errstate(all="ignore"):
        expected = stored.astype(np.float32)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), ~numbers)
    np.testing.assert_array_equal(found.view(np.uint32)[numbers], expected.view(np.uint32)[numbers])


@pytest.mark.parametrize("dtype", SMALL)
def test_every_number_of_a_format_is_widened_as_numpy_does_it(dtype):
    """Of all together and, as some are converted by NumPy where one among them is not finite, of the finite ones."""
    for stored in (everything(dtype), FINITE, *(np.append(FINITE[::7], np.float16(odd)) for odd in ODD)):
        same(single(stored), stored)
        target = np.empty(stored.shape, np.float32)
        widen(target, stored)
        same(target, stored)
    for shape in ((0,), (2, 0), ()):
        same(single(np.ones(shape, dtype)), np.ones(shape, dtype))


@pytest.mark.parametrize("dtype", [*SMALL, np.float32, np.float64])
def test_columns_of_a_matrix_are_widened_into_columns_of_another(dtype):
    stored = np.random.default_rng(0).standard_normal((6, 8)).astype(dtype)
    for view in (lambda matrix: matrix.T, lambda matrix: matrix[:, 2:5], lambda matrix: matrix[::2, ::3]):
        target = np.full(stored.shape, 9, np.float32)
        widen(view(target), view(stored))
        same(np.ascontiguousarray(view(target)), np.ascontiguousarray(view(stored)))
        same(single(view(stored)), view(stored))
        untouched = np.ones(stored.shape, bool)
        view(untouched)[...] = False
        assert (target[untouched] == 9).all()


@pytest.mark.parametrize("name", ["BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0"])
def test_numbers_in_a_format_that_numpy_lacks_are_those_that_torch_reads(name):
    stored = everything(DTYPES[name])
    size = stored.itemsize
    tensor = torch.from_numpy(stored.view(f"i{size}")).view(getattr(torch, stored.dtype.name))
    np.testing.assert_array_equal(single(stored), tensor.float().numpy())


def test_parts_are_decoded_in_order_and_what_is_too_large_is_infinite(tmp_path):
    part = np.ones(3, np.float32)
    assert as_stored([part]) is single(part) is part
    for parts in ([], [part, part]):
        with pytest.raises(ValueError, match="unpack"):
            as_stored(parts)
    sizes = {(): 1, (0,): 0, (3, 4): 12, (2**40, 2**40): 2**80}
    assert {shape: TensorInfo(shape, ("a",)).numbers for shape in sizes} == sizes

    def scaled(parts):
        norm, head = parts
        return norm * 0 + head[0, 0]

    tensors = {"both": TensorInfo((32,), (NORM, HEAD), scaled), "turned": TensorInfo((32,), (HEAD, NORM), scaled)}
    tensors["packed"] = TensorInfo((4,), (NORM,), refusal="is stored as F4")
    checkpoint = Checkpoint(dict(header(tiny_llama(tmp_path) / WEIGHTS, "model")), tensors)
    assert checkpoint.shapes == {"both": (32,), "turned": (32,), "packed": (4,)}
    assert checkpoint.read("both").shape == (32,)
    with pytest.raises(IndexError):
        checkpoint.read("turned")
    with pytest.raises(NothingToCompare, match=r"^packed is stored as F4$"):
        checkpoint.read("packed")
    with warnings.catch_warnings(action="error"):
        assert single(np.array([1e300, -1e300, 1e-300, 2.0])).tolist() == [np.inf, -np.inf, 0.0, 2.0]
        assert np.isnan(single(np.array([np.nan]))).all()
