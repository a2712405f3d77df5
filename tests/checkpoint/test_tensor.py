"""A tensor as a model loads it, and every stored number as the one in float32 that NumPy makes of it."""

import json
import os
import warnings

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.tensor import (
    ALIGNMENT,
    DTYPES,
    Memory,
    StoredTensor,
    TensorInfo,
    as_stored,
    header,
    single,
    widen,
)
from hf_lineage.errors import CheckpointError, NothingToCompare
from tests.checkpoint.conftest import opened
from tests.models import WEIGHTS, raw_safetensors, tiny_llama

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


def entry(*shape, dtype="F32", offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_every_tensor_is_where_its_start_says_and_prefetching_asks_for_it_alone(sharded, monkeypatch):
    found, asked = opened(sharded), []
    for name, info in found.stored.items():
        assert info.file.read_bytes()[info.start : info.start + info.size] == found.read(name).tobytes()
    monkeypatch.setattr(os, "posix_fadvise", lambda file, *rest: asked.append(rest), raising=False)
    monkeypatch.setattr(os, "POSIX_FADV_WILLNEED", "will need", raising=False)
    info = found.stored["model.norm.weight"]
    found.prefetch("model.norm.weight")
    monkeypatch.delattr(os, "posix_fadvise")
    found.prefetch("model.norm.weight")
    assert asked == [(info.start, info.size, "will need")]


TWICE = json.dumps({"a": entry(1), "b": entry(1, offsets=(4, 8))}).replace("b", "a").encode()
LIES = {
    "beyond the file": (b"{}", b"", 10**6),
    "text": (b"not json", b"", None),
    "2**63": (b"{}", b"", 2**63),
    "bytes left over": ({"a": entry(1)}, b"\0" * 5, None),
    "overlap": ({"a": entry(1), "b": entry(1, offsets=(2, 6))}, b"\0" * 6, None),
    "beyond the data": ({"a": entry(2**40, offsets=(0, 2**42))}, b"\0" * 4, None),
    "no length": (b"{}", b"", 0),
    "one byte": (b"{}", b"", 1),
    "2**64 - 1": (b"{}", b"", 2**64 - 1),
    "empty": (b"", b"", None),
    "list": (b"[1, 2]", b"", None),
    "nested": (b"{" * 5000, b"", None),
    "not UTF-8": (b'{"\xff": 1}', b"", None),
    "truncated": ({"a": entry(1)}, b"\0" * 3, None),
    "a name twice": (TWICE, b"\0" * 8, None),
    "gap": ({"a": entry(1), "b": entry(1, offsets=(8, 12))}, b"\0" * 12, None),
    "backwards": ({"a": entry(1, offsets=(4, 0))}, b"\0" * 4, None),
    "negative offset": ({"a": entry(1, offsets=(-4, 0))}, b"\0" * 4, None),
    "offset 2**63": ({"a": entry(1, offsets=(0, 2**63))}, b"\0" * 4, None),
    "too small": ({"a": entry(2)}, b"\0" * 4, None),
    "negative shape": ({"a": entry(-1)}, b"\0" * 4, None),
    "2**62 by 2**62": ({"a": entry(2**62, 2**62)}, b"\0" * 4, None),
    "2**70": ({"a": entry(2**70)}, b"\0" * 4, None),
    "text as shape": ({"a": entry("1")}, b"\0" * 4, None),
    "unknown dtype": ({"a": entry(1, dtype="F33")}, b"\0" * 4, None),
    "no dtype": ({"a": {"shape": [1], "data_offsets": [0, 4]}}, b"\0" * 4, None),
    "number": ({"a": 7}, b"", None),
}


@pytest.mark.parametrize(("header", "data", "length"), LIES.values(), ids=LIES)
def test_a_header_that_lies_is_refused(tmp_path, header, data, length):
    raw_safetensors(tmp_path / WEIGHTS, header, data, length)
    with pytest.raises(CheckpointError, match=r"model\.safetensors.*(download it again|saved again|weights there)$"):
        opened(tmp_path)


@pytest.mark.parametrize("size", [0, 7, 8, 100, 20_000])
def test_a_file_cut_off_anywhere_or_a_pointer_of_git_lfs_is_refused(tmp_path, size):
    os.truncate(tiny_llama(tmp_path) / WEIGHTS, size)
    with pytest.raises(CheckpointError, match=r"model\.safetensors.*download it again"):
        opened(tmp_path)
    (tmp_path / WEIGHTS).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    with pytest.raises(CheckpointError, match=r"is a pointer of git-lfs, not the weights; run `git lfs pull`"):
        opened(tmp_path)


def rewritten(file):
    at = file.stat()
    file.write_bytes(file.read_bytes()[:-4] + b"\0\0\0\0")
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns + 1))


def exchanged(file):
    """Another file of the same length under the same name, of the same time."""
    at = file.stat()
    file.with_name("other").write_bytes(file.read_bytes())
    os.utime(file.with_name("other"), ns=(at.st_atime_ns, at.st_mtime_ns))
    file.with_name("other").replace(file)


def resized(more):
    return lambda file: os.truncate(file, file.stat().st_size + more)


@pytest.mark.parametrize(
    "change", [resized(-1), resized(1), lambda file: os.truncate(file, 0), rewritten, exchanged, os.unlink]
)
def test_a_file_that_changes_after_its_header_was_read_is_an_error(tmp_path, change):
    found = opened(tiny_llama(tmp_path))
    before = found.read("model.norm.weight")
    change(tmp_path / WEIGHTS)
    with pytest.raises(CheckpointError, match=r"^model\.norm\.weight cannot be read: .*; check that nothing changes"):
        found.read("model.norm.weight")
    np.testing.assert_array_equal(before, np.ones(32, np.float32), strict=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (2, 3, 4)])
def test_every_format_and_shape_is_read_as_safetensors_reads_it(tmp_path, dtype, shape):
    folder = tiny_llama(tmp_path)
    wanted = {"first": torch.randn(shape).to(dtype), "second": torch.randn(5).to(dtype)}
    save_file(wanted, folder / WEIGHTS)
    found = opened(folder)
    for name, tensor in wanted.items():
        array = found.read(name)
        assert array.shape == tensor.shape
        assert array.dtype.name == str(dtype).removeprefix("torch.")
        assert array.tobytes() == tensor.flatten().view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_format_has_its_size_in_torch_and_tensors_come_in_their_order(tmp_path, dtype):
    """A file that is gone is called as its user knows it, and not read ahead."""
    size = getattr(torch, DTYPES[dtype].name).itemsize
    names = {"b": entry(3, dtype=dtype, offsets=(0, 3 * size))}
    names["a"] = entry(2, 1, dtype=dtype, offsets=(3 * size, 5 * size))
    raw_safetensors(tmp_path / WEIGHTS, names, bytes(5 * size))
    found = [(name, one.dtype, one.shape, one.size) for name, one in header(tmp_path / WEIGHTS, "m")]
    assert found == [("b", dtype, (3,), 3 * size), ("a", dtype, (2, 1), 2 * size)]
    StoredTensor(tmp_path / "gone", "F32", (1,), 0).prefetch()
    assert not (tmp_path / "gone").exists()
    with pytest.raises(CheckpointError, match=r"^the weights cannot be read: No such file or directory; check its"):
        list(header(tmp_path / "gone", "the weights"))


@pytest.fixture
def matrix(tmp_path):
    found, name = opened(tiny_llama(tmp_path)), "model.layers.0.mlp.up_proj.weight"
    assert found.rows("model.norm.weight") is None, "what is no matrix is read as a whole"
    return found.rows(name), found.read(name)


@pytest.mark.parametrize("chosen", [slice(0, 5), slice(7, 8), slice(40, 99), slice(None), slice(3, 3)])
def test_some_rows_are_those_of_the_whole_matrix(matrix, chosen):
    rows, whole = matrix
    np.testing.assert_array_equal(rows.read(chosen, Memory()), whole[chosen], strict=True)
    np.testing.assert_array_equal(np.asarray(rows), whole, strict=True)
    assert (len(rows), rows.shape) == (len(whole), whole.shape)


def test_the_same_memory_serves_for_all_pieces_until_the_file_changes(matrix, tmp_path):
    rows, whole = matrix
    memory = Memory()
    first = rows.read(slice(0, 8), memory)
    np.testing.assert_array_equal(rows.read(slice(8, 16), memory), whole[8:16])
    np.testing.assert_array_equal(first, whole[8:16])
    os.truncate(tmp_path / WEIGHTS, 100)
    with pytest.raises(CheckpointError, match=r"^model\.layers\.0\.mlp\.up_proj\.weight cannot be read: the file"):
        rows.read(slice(4, 8), memory)


@pytest.mark.parametrize(("announced", "sizes"), [((3, 100, 0, 8), (3, 100, 0, 8)), ((64,), (64, 64, 64))])
def test_what_is_taken_is_aligned_and_lies_apart_however_much_was_announced(announced, sizes):
    memory = Memory()
    memory.reuse(announced)
    taken = [memory.take(size) for size in sizes]
    for value, each in enumerate(taken, 1):
        each.fill(value)
    assert [each.tolist() for each in taken] == [[value] * size for value, size in enumerate(sizes, 1)]
    inside = taken[: len(announced)]
    assert {(each.ctypes.data - taken[0].ctypes.data) % ALIGNMENT for each in inside if len(each)} == {0}


@pytest.mark.parametrize("sizes", [[100], [40, 60], [1], [1000]])
def test_memory_is_used_again_while_it_suffices_or_left_to_those_who_hold_it(sizes):
    memory = Memory()
    memory.reuse([100, 100])
    held = memory.take(100)
    held.fill(7)
    memory.reuse(sizes)
    taken = memory.take(sizes[0])
    assert (taken.ctypes.data == held.ctypes.data) == (sizes[0] < 200)
    if sizes[0] > 200:
        taken.fill(9)
        assert held.tolist() == [7] * 100
