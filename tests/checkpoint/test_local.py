import os
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_lineage.checkpoint import open_checkpoint
from hf_lineage.errors import CheckpointError, NothingToCompare
from hf_lineage.hub.reference import RepoRef
from tests.models import WEIGHTS, Trap, edit_json, raw_safetensors, shard, spoil, tiny_llama

INDEX = "model.safetensors.index.json"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
STRANGE = "names a shard that is no safetensors file of this folder"


def opened(folder):
    return open_checkpoint(RepoRef("org/model", folder))


def entry(*shape, dtype="F32", offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.fixture
def sharded(tmp_path):
    return shard(tiny_llama(tmp_path))


def test_shapes_and_values_are_those_on_disk(tmp_path):
    tiny_llama(tmp_path)
    found = opened(tmp_path)
    assert found.shapes["model.layers.1.mlp.down_proj.weight"] == (32, 48)
    assert found.stored["model.norm.weight"].size == 32 * 4
    np.testing.assert_array_equal(found.read("model.norm.weight"), np.ones(32, np.float32), strict=True)


def test_shards_hold_the_same_as_one_file(tmp_path):
    single, shards = opened(tiny_llama(tmp_path / "a")), opened(shard(tiny_llama(tmp_path / "b")))
    assert single.shapes == shards.shapes
    assert all(np.array_equal(single.read(name), shards.read(name)) for name in single.shapes)


def test_every_tensor_is_where_its_start_and_size_say(sharded):
    found = opened(sharded)
    for name, info in found.stored.items():
        there = info.file.read_bytes()[info.start : info.start + info.size]
        assert there == found.read(name).tobytes()


def test_prefetching_asks_the_system_for_the_bytes_of_the_tensors_alone(sharded, monkeypatch):
    found, asked = opened(sharded), []
    monkeypatch.setattr(os, "posix_fadvise", lambda file, *rest: asked.append(rest), raising=False)
    monkeypatch.setattr(os, "POSIX_FADV_WILLNEED", "will need", raising=False)
    info = found.stored["model.norm.weight"]
    found.prefetch("model.norm.weight")
    assert asked == [(info.start, info.size, "will need")]
    monkeypatch.delattr(os, "posix_fadvise")
    found.prefetch("model.norm.weight")
    assert len(asked) == 1


def test_a_single_file_beside_an_index_of_others_is_two_models(sharded, tmp_path):
    (tmp_path / WEIGHTS).write_bytes(tiny_llama(tmp_path / "other", seed=1).joinpath(WEIGHTS).read_bytes())
    with pytest.raises(NothingToCompare) as error:
        opened(sharded)
    assert str(error.value) == (
        "org/model holds model.safetensors, and its model.safetensors.index.json names other files: transformers loads "
        "the former, other loaders the latter; keep one of them"
    )


def test_an_index_of_the_single_file_alone_changes_nothing(sharded, tmp_path):
    (tmp_path / WEIGHTS).write_bytes(tiny_llama(tmp_path / "other", seed=1).joinpath(WEIGHTS).read_bytes())
    names = load_file(sharded / WEIGHTS)
    edit_json(sharded / "model.safetensors.index.json", weight_map=dict.fromkeys(names, WEIGHTS))
    assert {info.file.name for info in opened(sharded).stored.values()} == {WEIGHTS}


@pytest.mark.parametrize(
    ("header", "data", "length"),
    [
        (b"{}", b"", 10**6),
        (b"{}", b"", 0),
        (b"{}", b"", 1),
        (b"{}", b"", 2**63),
        (b"{}", b"", 2**64 - 1),
        (b"", b"", None),
        (b"not json", b"", None),
        (b"[1, 2]", b"", None),
        (b"{" * 5000, b"", None),
        (b'{"\xff": 1}', b"", None),
        ({"a": entry(1)}, b"\0" * 3, None),
        ({"a": entry(1)}, b"\0" * 5, None),
        ({"a": entry(1), "b": entry(1, offsets=(2, 6))}, b"\0" * 6, None),
        ({"a": entry(1), "b": entry(1, offsets=(8, 12))}, b"\0" * 12, None),
        ({"a": entry(1, offsets=(4, 0))}, b"\0" * 4, None),
        ({"a": entry(1, offsets=(-4, 0))}, b"\0" * 4, None),
        ({"a": entry(1, offsets=(0, 2**63))}, b"\0" * 4, None),
        ({"a": entry(2)}, b"\0" * 4, None),
        ({"a": entry(-1)}, b"\0" * 4, None),
        ({"a": entry(2**62, 2**62)}, b"\0" * 4, None),
        ({"a": entry(2**70)}, b"\0" * 4, None),
        ({"a": entry("1")}, b"\0" * 4, None),
        ({"a": entry(1, dtype="F33")}, b"\0" * 4, None),
        ({"a": {"shape": [1], "data_offsets": [0, 4]}}, b"\0" * 4, None),
        ({"a": 7}, b"", None),
    ],
    ids=[
        *("header beyond the file", "no length", "one byte", "2**63", "2**64 - 1", "empty", "text", "list", "nested"),
        *("not UTF-8", "truncated", "bytes left over", "overlap", "gap", "backwards", "negative offset"),
        *("offset 2**63", "too small", "negative shape", "2**62 by 2**62", "2**70", "text as shape", "unknown dtype"),
        *("no dtype", "number"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, header, data, length):
    raw_safetensors(tmp_path / WEIGHTS, header, data, length)
    with pytest.raises(CheckpointError, match=r"model\.safetensors.*download it again"):
        opened(tmp_path)


def test_of_a_name_that_comes_twice_nothing_is_trusted(tmp_path):
    twice = (
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'
    )
    raw_safetensors(tmp_path / WEIGHTS, twice, b"\0" * 8)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged: .*; download it again"):
        opened(tmp_path)


@pytest.mark.parametrize("size", [0, 7, 8, 100, 20_000])
def test_a_file_cut_off_anywhere_is_refused(tmp_path, size):
    os.truncate(tiny_llama(tmp_path) / WEIGHTS, size)
    with pytest.raises(CheckpointError, match=r"model\.safetensors.*download it again"):
        opened(tmp_path)


def test_a_pointer_of_git_lfs_says_what_to_run(tmp_path):
    (tmp_path / WEIGHTS).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    with pytest.raises(CheckpointError, match=r"is a pointer of git-lfs, not the weights; run `git lfs pull`"):
        opened(tmp_path)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: path.symlink_to("gone")])
def test_weights_that_are_no_file_are_never_waited_for(tmp_path, make):
    make(tmp_path / WEIGHTS)
    with pytest.raises(
        CheckpointError, match=r"org/model: model\.safetensors is not a readable file but a folder, a pipe"
    ):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        (None, "has no `weight_map` from tensor names to file names; download it again"),
        ("text", "has no `weight_map` from tensor names to file names"),
        ({"a": 7}, "has no `weight_map` from tensor names to file names"),
        ({"a": ["x"]}, "has no `weight_map` from tensor names to file names"),
        ({"a": "../x.safetensors"}, f"{STRANGE}: ../x.safetensors; do not trust this model"),
        ({"a": "/etc/x.safetensors"}, f"{STRANGE}: /etc/x.safetensors"),
        ({"a": "sub/x.safetensors"}, f"{STRANGE}: sub/x.safetensors"),
        ({"a": "..\\x.safetensors"}, rf"{STRANGE}: ..\x.safetensors"),
        ({"a": "C:x.safetensors"}, f"{STRANGE}: C:x.safetensors"),
        ({"a": "x\0.safetensors"}, rf"{STRANGE}: x\x00.safetensors"),
        ({"a": "pytorch_model.bin"}, f"{STRANGE}: pytorch_model.bin"),
        ({"a": ""}, f"{STRANGE}: ; do not trust this model"),
        ({"a": ".."}, f"{STRANGE}: ..; do not trust this model"),
        ({"a": "gone.safetensors"}, "names the shard gone.safetensors, which is missing; download it again"),
        ({"a": f"{'x' * 300}.safetensors"}, f"names the shard {'x' * 300}.safetensors, which is missing"),
        ({"a": "\ud800.safetensors"}, r"names the shard \ud800.safetensors, which is missing"),
        ({"a": FIRST}, "names the tensor a, which no shard holds; download them again"),
    ],
)
def test_an_index_that_lies_is_refused(sharded, weight_map, message):
    edit_json(sharded / INDEX, weight_map=weight_map)
    with pytest.raises(CheckpointError) as error:
        opened(sharded)
    assert str(error.value).startswith("org/model: ")
    assert message in str(error.value)


def test_a_tensor_in_two_shards_is_refused(sharded):
    (sharded / SECOND).write_bytes((sharded / FIRST).read_bytes())
    with pytest.raises(CheckpointError, match=rf"is in both {FIRST} and {SECOND}; remove one of them"):
        opened(sharded)


def test_a_number_format_that_is_not_decoded_is_nothing_to_compare(tmp_path):
    def round_all(tensors):
        tensors.update({name: tensor.to(torch.float8_e4m3fn) for name, tensor in tensors.items()})

    found = opened(spoil(tiny_llama(tmp_path), round_all))
    with pytest.raises(NothingToCompare, match=r"model\.norm\.weight is stored as F8_E4M3; quantized formats are not"):
        found.read("model.norm.weight")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.ckpt"])
def test_a_pickle_is_never_loaded(tmp_path, name):
    trap = tmp_path / "sprung"
    (tmp_path / name).write_bytes(pickle.dumps(Trap(trap)))
    with pytest.raises(
        NothingToCompare, match=rf"its weights as a pickle \({name}\), which is never loaded; convert it"
    ):
        opened(tmp_path)
    assert not trap.exists()
    pickle.loads((tmp_path / name).read_bytes())
    assert trap.exists()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "org/model holds no weights (model.safetensors or model.safetensors.index.json)"),
        (["model-q4.gguf"], "holds its weights as GGUF (model-q4.gguf), which is not decoded yet; check the safetens"),
        (["adapter_config.json", "adapter_model.safetensors"], "holds only a LoRA adapter; merge it into its base"),
        (["other.safetensors"], "has other.safetensors but neither model.safetensors nor model.safetensors.index.json"),
    ],
)
def test_without_weights_the_reason_says_what_is_there_instead(tmp_path, files, message):
    for file in files:
        (tmp_path / file).touch()
    with pytest.raises(NothingToCompare) as error:
        opened(tmp_path)
    assert message in str(error.value)


def rewritten(file):
    """Another content of the same length, a moment later."""
    at = file.stat()
    content = file.read_bytes()
    file.write_bytes(content[:-4] + b"\0\0\0\0")
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns + 1))


def exchanged(file):
    """Another file of the same length under the same name, of the same time."""
    at = file.stat()
    file.with_name("other").write_bytes(file.read_bytes())
    os.utime(file.with_name("other"), ns=(at.st_atime_ns, at.st_mtime_ns))
    file.with_name("other").replace(file)


CHANGES = {
    "shortened": lambda file: os.truncate(file, file.stat().st_size - 1),
    "emptied": lambda file: os.truncate(file, 0),
    "longer": lambda file: os.truncate(file, file.stat().st_size + 1),
    "rewritten": rewritten,
    "exchanged": exchanged,
    "gone": lambda file: file.unlink(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_changes_after_its_header_was_read_is_an_error(tmp_path, change):
    found = opened(tiny_llama(tmp_path))
    change(tmp_path / WEIGHTS)
    with pytest.raises(
        CheckpointError, match=r"^model\.norm\.weight cannot be read: .*; check that nothing changes the"
    ):
        found.read("model.norm.weight")


def test_what_was_read_stays_whatever_becomes_of_the_file(tmp_path):
    found = opened(tiny_llama(tmp_path)).read("model.norm.weight")
    os.truncate(tmp_path / WEIGHTS, 0)
    np.testing.assert_array_equal(found, np.ones(32))


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
