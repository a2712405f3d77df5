"""A shard is read as untrusted input: whatever is wrong with it is one clear line, before anything large is read."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save

from hf_lineage.errors import SignatureError
from hf_lineage.evidence.comparison import compare_paths
from hf_lineage.index import shard as module
from hf_lineage.index.shard import Entry, Group, Shard, ShardGoneError, halves, join_shards, key_of, similarities, write

ENTRY = Entry("org/model", "c" * 40, "mlp", 64, 2, "mlp-robust-64")
HEADER = {"version": 1, "path": "mlp", "width": 64, "recipe": "mlp-robust-64"}
KEYS = np.random.default_rng(0).integers(0, 256, (9000, 256), np.uint8)


def entries(count, **changes):
    return [replace(ENTRY, model=f"org/model-{number:04}", **changes) for number in range(count)]


def test_what_was_written_is_read_back_and_joined_each_model_has_its_last_key(tmp_path):
    shard = Shard.open(write(tmp_path, "a", entries(9000), KEYS))
    assert (shard.group, shard.rows) == (Group("mlp", 64, "mlp-robust-64"), 9000)
    assert np.array_equal(shard.keys(), KEYS)
    assert [len(some) for some in shard.pieces()] == [4096, 4096, 808]
    assert shard.entries() == entries(9000)
    assert [one.model for one in shard.entries([8000, 0])] == ["org/model-8000", "org/model-0000"]
    one = Shard.open(write(tmp_path, "a", entries(3)[::-1], KEYS[:3]))
    other = Shard.open(write(tmp_path, "b", entries(2), KEYS[3:5]))
    gone = Shard.open(write(tmp_path, "c", entries(1), KEYS[:1]))
    gone.remove()
    read, models, keys = join_shards([one, other, gone])
    assert (read, models) == ([one, other], entries(3))
    assert np.array_equal(keys, KEYS[[3, 4, 0]])


@pytest.fixture
def three(tmp_path):
    return Shard.open(write(tmp_path, "a", entries(3), KEYS[:3]))


def refused(read):
    with pytest.raises(SignatureError) as raised:
        read()
    message = str(raised.value)
    assert message.isprintable()
    assert len(message) < 500
    assert message.endswith("; remove it and add its models again")
    return message


def stored(header=HEADER, tensors=None):
    text = header if isinstance(header, str) else json.dumps(header)
    return save(tensors or {"keys": KEYS[:3]}, {"index": text})


def claiming(shape, size):
    """A file that claims keys of a shape, with so many bytes behind its header."""
    end = int(np.prod([float(one) for one in shape]))
    header = {"__metadata__": {"index": json.dumps(HEADER)}}
    text = json.dumps(header | {"keys": {"dtype": "U8", "shape": shape, "data_offsets": [0, end]}}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(size)


HOSTILE_KEYS = {
    "nothing": (b"", "the header claims 0 bytes in a file of 0"),
    "no header": (b"x" * 100, "the header claims"),
    "a header of a terabyte": ((10**12).to_bytes(8, "little") + b"{}", "the header claims 1000000000000 bytes"),
    "a long header": (stored(HEADER | {"recipe": "r" * 2**15}), "the header claims"),
    "truncated": (stored()[:-1], ""),
    "more than the header says": (stored() + b"x", ""),
    "more rows than there are": (claiming([10**6, 256], 768), ""),
    "a trillion rows": (claiming([10**12, 256], 768), ""),
    "rows without bytes": (claiming([2**62, 0], 0), "its keys are U8 of [4611686018427387904, 0], not U8"),
    "no rows of it": (claiming([], 1), "its keys are U8 of [0], not U8"),
    "another type": (stored(tensors={"keys": KEYS[:3].astype(np.float32)}), "its keys are F32 of [3, 256], not U8"),
    "NaN": (stored(tensors={"keys": np.full((3, 256), np.nan)}), "its keys are F64 of [3, 256], not U8"),
    "short keys": (stored(tensors={"keys": KEYS[:3, :8].copy()}), "its keys are U8 of [3, 8], not U8"),
    "another name": (stored(tensors={"key": KEYS[:3]}), "it does not hold one tensor with the name keys"),
    "two tensors": (stored(tensors={"keys": KEYS, "more": KEYS}), "it does not hold one tensor with the name keys"),
    "no metadata": (save({"keys": KEYS[:3]}), "Input data was truncated"),
    "no JSON": (stored("{"), "Input data was truncated"),
    "deep JSON": (stored("[" * 5000), ""),
    "another version": (stored(HEADER | {"version": 9}), "its keys were made in another way (version 9, not 1)"),
    "an unknown path": (stored(HEADER | {"path": "nose"}), "its path is not one of mlp, "),
    "no width": (stored(HEADER | {"width": 0}), "Expected `int` >= 2"),
    "a width that is NaN": (stored(json.dumps(HEADER).replace("64,", "NaN,")), "JSON is malformed"),
    "a large width": (stored(HEADER | {"width": 2**62}), "Expected `int` <= "),
    "a recipe with a line end": (stored(HEADER | {"recipe": "r\n"}), "Expected `str` matching regex"),
    "another key": (stored(HEADER | {"more": 1}), "Object contains unknown field `more`"),
}


@pytest.mark.parametrize(("content", "why"), HOSTILE_KEYS.values(), ids=HOSTILE_KEYS)
def test_keys_that_are_none_are_one_line(tmp_path, content, why):
    (tmp_path / "a.safetensors").write_bytes(content)
    assert why in refused(lambda: Shard.open(tmp_path / "a.safetensors"))


def line(**changes):
    return json.dumps({"model": "org/model", "commit": "c" * 40, "layers": 2} | changes).encode() + b"\n"


GOOD = line(model="org/a") + line(model="org/b") + line(model="org/c")

HOSTILE_LINES = {
    "nothing": (b"", "it ends before line 1 of 3"),
    "too few": (GOOD[: GOOD.index(b"org/c")], "it ends before line 3 of 3"),
    "too many": (GOOD + line(), "it has more lines than there are keys, 3"),
    "a line without end": (b"{" * 10**6, "it ends before line 1 of 3, or that is too long"),
    "no JSON": (b"x\n" * 3, "JSON is malformed"),
    "no text": (b"\xff\n" * 3, ""),
    "deep JSON": ((b"[" * 1000 + b"]" * 1000 + b"\n") * 3, "Expected `object`, got `array`"),
    "deep inside": (line(model="org/a", more=1).replace(b"1}", b"[" * 1000 + b"]" * 1000 + b"}") * 3, ""),
    "twice": (line() * 3, "a model is in it twice"),
    "no name": (line(model="") * 3, "the name has 0 bytes, not 1 to 4096"),
    "a long name": (line(model="a" * 5000) * 3, "the name has 5000 bytes, not 1 to 4096"),
    "a name with a line end": (line(model="org/a\n::error::") * 3, "has characters that are not printed"),
    "a name that moves the cursor": (line(model="org/\x1b[2J") * 3, "has characters that are not printed"),
    "half a surrogate pair": (b'{"model": "\\ud800", "commit": "", "layers": 2}\n' * 3, ""),
    "a number for a name": (line(model=7) * 3, "Expected `str`, got `int`"),
    "a commit that is none": (line(commit="main") * 3, "Expected `str` matching regex"),
    "no layers": (line(layers=0) * 3, "Expected `int` >= 1"),
    "NaN layers": (line().replace(b"2}", b"NaN}") * 3, "JSON is malformed"),
    "a large number": (line().replace(b"2}", b"1" * 5000 + b"}") * 3, ""),
    "another key": (line(source="eve/index") * 3, "Object contains unknown field `source`"),
}


@pytest.mark.parametrize(("content", "why"), HOSTILE_LINES.values(), ids=HOSTILE_LINES)
def test_lines_that_are_no_models_are_one_line(three, content, why):
    three.models.write_bytes(content)
    assert why in refused(three.entries)


def test_what_grew_too_large_or_changes_or_goes_while_it_is_read_is_one_line(three, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(module, "MOST_ROWS", 2)
        assert "its keys are U8 of [3, 256], not U8 of at most [2, 256]" in refused(lambda: Shard.open(three.file))
    three.file.write_bytes(three.file.read_bytes()[:-1])
    assert "the file changed after its header was read" in refused(three.keys)
    three.remove()
    assert list(tmp_path.iterdir()) == []
    for read in (lambda: Shard.open(three.file), three.entries, three.keys):
        with pytest.raises(ShardGoneError, match="is gone; run again"):
            read()


@pytest.mark.skipif(os.name == "nt", reason="there are no such files there")
def test_a_pipe_is_not_waited_for_and_a_device_not_read(tmp_path):
    os.mkfifo(tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors").symlink_to("/dev/zero")
    for name in "ab":
        refused(lambda name=name: Shard.open(tmp_path / f"{name}.safetensors"))


def test_the_cosine_of_two_keys_is_about_the_score_without_test_coordinates(signatures):
    path = signatures["acme/llama-base"].paths["mlp"]
    for name in ("fern/llama-finetune-a", "heron/llama-pruned-50", "moss/llama-continued", "magpie/llama-grafted"):
        other = signatures[name].paths["mlp"]
        cosine = float(similarities(key_of(path), key_of(other)[None])[0])
        assert cosine == pytest.approx(compare_paths(path, other).score, abs=0.1)
    _, tested = halves(96)
    order = np.arange(96)
    order[tested] = np.random.default_rng(0).permutation(tested)
    permuted = replace(path, corner=path.corner[:, order][:, :, order])
    assert not np.array_equal(permuted.corner, path.corner)
    assert np.array_equal(key_of(permuted), key_of(path))
