"""GGUF files of a repository: which one is the model, by name, and what its header says, here or on the Hub.

What gguf's own writer wrote is read, and what is damaged or hostile is one clear line.
"""

import io
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hf_lineage.checkpoint.foreign_form import HeaderError, list_files
from hf_lineage.checkpoint.gguf import files as gguf_files
from hf_lineage.checkpoint.gguf.files import MOST_KEYS, MOST_TENSORS, GgufTensor, choose_files, parse, read_head, texts
from hf_lineage.errors import CheckpointError, NothingToCompare, OptionError
from hf_lineage.hub.repo import RepoRef, resolve
from tests.gguf_models import KINDS, finish, write
from tests.models import EXAMPLES
from tests.properties import cases
from tests.published.spellings import TABLES


@pytest.fixture
def folder(tmp_path):
    """A folder with empty files of these names."""

    def made(*names):
        for name in names:
            file = tmp_path / name
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(b"")
        return RepoRef("org/model", tmp_path)

    return made


@pytest.mark.parametrize(("names", "chosen"), TABLES["gguf_files"])
def test_the_most_precise_file_by_its_name_is_the_model(folder, names, chosen):
    assert choose_files(folder(*names)) == tuple(chosen)


def test_several_models_are_refused_with_their_names(folder):
    with pytest.raises(NothingToCompare) as caught:
        choose_files(folder("a-1b-Q8_0.gguf", "a-7b-Q8_0.gguf"))
    assert str(caught.value) == (
        "org/model holds several models as GGUF (a-1b-Q8_0.gguf, a-7b-Q8_0.gguf); name one by its path, or "
        "with --file for the model that is judged; --file all judges each"
    )


def test_a_missing_part_is_named(folder):
    with pytest.raises(CheckpointError) as caught:
        choose_files(folder("a-Q8_0-00001-of-00003.gguf", "a-Q8_0-00003-of-00003.gguf"))
    assert str(caught.value) == "org/model: a-Q8_0-00002-of-00003.gguf is missing; download all parts of the model"


def test_a_file_that_is_named_is_read_whatever_lies_beside_it(folder, tmp_path):
    folder("a-Q8_0.gguf", "b/a-Q4_0-00001-of-00001.gguf", "model.safetensors")
    repo = RepoRef("org/model", tmp_path, file="b/a-Q4_0-00001-of-00001.gguf")
    assert choose_files(repo) == ("b/a-Q4_0-00001-of-00001.gguf",)
    assert list_files(repo, ".gguf") == ["a-Q8_0.gguf", "b/a-Q4_0-00001-of-00001.gguf"]


@pytest.mark.parametrize("named", ["nothing.gguf", "../other.gguf"])
def test_a_file_that_is_not_there_is_an_error_of_the_option(folder, tmp_path, named):
    folder("a-Q8_0.gguf", "model.safetensors")
    with pytest.raises(OptionError) as caught:
        choose_files(RepoRef("org/model", tmp_path, file=named))
    assert str(caught.value) == f"org/model has no GGUF file {named} (it has a-Q8_0.gguf); name another"


POINTER = b"version https://git-lfs.github.com/spec/v1\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (POINTER, "is a pointer of git-lfs, not the weights; run `git lfs pull`"),
        (b"GGUF\3\0", "is truncated: it ends within its header; download it again"),
    ],
)
def test_an_error_names_the_model_and_the_file(folder, tmp_path, content, said):
    repo = folder("a.gguf")
    (tmp_path / "a.gguf").write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        read_head(repo, "a.gguf")
    assert str(caught.value).startswith(f"org/model: a.gguf {said}")


def test_a_link_out_of_the_folder_is_not_followed(folder, tmp_path):
    repo = folder("inside/a.gguf")
    own = RepoRef("org/model", tmp_path / "inside")
    (tmp_path / "inside/a.gguf").unlink()
    (tmp_path / "b.gguf").write_bytes(b"GGUF")
    (tmp_path / "inside/a.gguf").symlink_to(tmp_path / "b.gguf")
    assert repo.heads == {}
    with pytest.raises(CheckpointError, match="is a link out of the model's folder"):
        read_head(own, "a.gguf")


def test_of_a_file_on_the_hub_the_header_alone_is_fetched_once(online, tmp_path):
    source = EXAMPLES / "fern/llama-finetune-a"
    file = write(source, tmp_path / "published/a-Q8_0.gguf", kind=8, said={"general.name": "a name"})
    here = read_head(RepoRef("here", file.parent), file.name)
    online.publish("fern/gguf", file.parent)
    repo = resolve("fern/gguf")
    assert choose_files(repo) == (file.name,)
    found = read_head(repo, file.name)
    assert found.header == here.header
    assert found.stamp is None
    assert found.downloaded == online.moved("fern/gguf") < file.stat().st_size / 4
    online.forget()
    assert read_head(repo, file.name) is found
    assert online.requests == []


def test_a_longer_header_is_fetched_piece_by_piece(online, tmp_path, monkeypatch):
    monkeypatch.setattr("hf_lineage.checkpoint.gguf.files.HEAD", 64)
    source = EXAMPLES / "fern/llama-finetune-a"
    file = write(source, tmp_path / "published/a.gguf")
    online.publish("fern/gguf", file.parent)
    found = read_head(resolve("fern/gguf"), file.name)
    assert found.header == read_head(RepoRef("here", file.parent), file.name).header
    assert 4 < found.requests < 10
    assert online.twice() == []


def test_a_file_that_the_cache_has_is_read_there(online, tmp_path):
    file = write(EXAMPLES / "fern/llama-finetune-a", tmp_path / "published/a.gguf")
    online.publish("fern/gguf", file.parent)
    resolve("fern/gguf").fetch("a.gguf")
    online.forget()
    assert read_head(resolve("fern/gguf"), "a.gguf").stamp is not None
    assert online.moved() == 0
    shutil.rmtree(file.parent)


def written(folder: Path) -> Path:
    """A small file with a value of every type."""
    file = folder / "model.gguf"
    out = gguf.GGUFWriter(str(file), "llama")
    out.add_string("general.name", "a name")
    out.add_uint32("llama.block_count", 2)
    out.add_float32("llama.eps", 0.5)
    out.add_bool("llama.causal", True)
    out.add_array("llama.heads", [4, 2])
    out.add_array("tokenizer.ggml.tokens", [f"word {number}" for number in range(5000)])
    out.add_array("tokenizer.ggml.scores", [0.5] * 5000)
    out.add_string("tokenizer.chat_template", "x" * 5000)
    out.add_tensor("a.weight", np.ones((3, 64), np.float32))
    out.add_tensor("b.weight", gguf.quantize(np.ones((2, 32), np.float32), KINDS.Q8_0), raw_dtype=KINDS.Q8_0)
    finish(out)
    return file


def read(content: bytes) -> gguf_files.GgufHeader:
    return parse(io.BytesIO(content), len(content))


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    return written(tmp_path_factory.mktemp("gguf")).read_bytes()


def header(keys=(), tensors=(), version=3, counts=None, magic=b"GGUF"):
    """A header of raw pieces, followed by 64 bytes of numbers."""
    count = counts or (len(tensors), len(keys))
    start = magic + struct.pack("<IQQ", version, *count) + b"".join(keys) + b"".join(tensors)
    return start + bytes(-len(start) % 32) + bytes(64)


def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(value)) + value


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def words(*values, count=None):
    """A list of texts."""
    return struct.pack("<IQ", 8, len(values) if count is None else count) + b"".join(map(text, values))


def tensor(name="t", shape=(4,), kind=0, start=0):
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, start)


def test_short_values_are_kept_and_long_ones_are_walked_over(content):
    found = read(content)
    assert found.metadata == {
        "general.architecture": "llama",
        "general.name": "a name",
        "llama.block_count": 2,
        "llama.eps": 0.5,
        "llama.causal": True,
        "llama.heads": (4, 2),
    }


def test_a_list_of_texts_is_read_when_it_is_asked_for():
    content = header(keys=[key("first", 9, words("no")), key("words", 9, words("a", "", "ü")), key("x", 8, text("a"))])
    read_as = {name: texts(io.BytesIO(content), len(content), name) for name in ("words", "x", "nothing")}
    assert read_as == {"words": ("a", "", "ü"), "x": (), "nothing": ()}
    numbers = header(keys=[key("words", 9, struct.pack("<IQI", 4, 1, 7))])
    assert texts(io.BytesIO(numbers), len(numbers), "words") == ()


@pytest.mark.parametrize(
    ("count", "said"),
    [(2**62, "a list of 4611686018427387904 items"), (2**20 + 1, "a list of 1048577 texts"), (2**20, "is truncated")],
)
def test_a_list_of_too_many_texts_is_refused(count, said):
    content = header(keys=[key("words", 9, words("a", count=count))])
    with pytest.raises(HeaderError, match=said):
        texts(io.BytesIO(content), len(content), "words")


def test_the_tensors_are_those_that_gguf_reads(tmp_path):
    file = written(tmp_path)
    reader = gguf.GGUFReader(str(file))
    assert parse(file.open("rb"), file.stat().st_size).tensors == tuple(
        GgufTensor(each.name, tuple(int(n) for n in each.shape[::-1]), int(each.tensor_type), int(each.data_offset))
        for each in reader.tensors
    )


def test_another_alignment_moves_the_numbers(tmp_path):
    out = gguf.GGUFWriter(str(tmp_path / "x.gguf"), "llama")
    out.add_custom_alignment(256)
    out.add_tensor("a", np.ones(4, np.float32))
    finish(out)
    content = (tmp_path / "x.gguf").read_bytes()
    (found,) = read(content).tensors
    assert found.start % 256 == 0
    assert np.frombuffer(content[found.start :][:16], np.float32).tolist() == [1, 1, 1, 1]


SHORT = "is truncated: it ends within its header; download it again"
READ, NO = "only little-endian versions 2 and 3 are read; convert the model again", "do not trust it"
BEYOND = "is truncated or damaged: its t does not begin within the file; download it again"
HOSTILE = {
    "not a GGUF file;": (b"version https://git-lfs", "is not a GGUF file; have it saved again"),
    "nothing at all": (b"", SHORT),
    "the first version": (header(version=1), f"is of version 1; {READ}"),
    "another byte order": (header(version=3 << 24), f"is written for big-endian machines; {READ}"),
    "a million keys": (header(counts=(0, 10**6)), f"claims 1000000 keys; hf-lineage reads at most {MOST_KEYS}; {NO}"),
    "a million tensors": (
        header(counts=(10**6, 0)),
        f"claims 1000000 tensors; hf-lineage reads at most {MOST_TENSORS}; {NO}",
    ),
    "keys that are not there": (header(counts=(0, 5))[:24], SHORT),
    "a key twice": (header(keys=[key("a", 0, b"\0")] * 2), "has the key 'a' twice; do not trust it"),
    "a long name": (header(keys=[struct.pack("<Q", 2**40)]), "has a name of 1099511627776 bytes; do not trust it"),
    "a long text": (header(keys=[key("a", 8, struct.pack("<Q", 2**60))]), SHORT),
    "a long list": (header(keys=[key("a", 9, struct.pack("<IQ", 8, 2**60))]), f"has a list of {2**60} items; {NO}"),
    "a list of many numbers": (header(keys=[key("a", 9, struct.pack("<IQ", 12, 2**22))]), SHORT),
    "a list of lists": (
        header(keys=[key("a", 9, struct.pack("<IQ", 9, 1))]),
        f"has a list of the unknown type 9; {NO}",
    ),
    "an unknown type": (header(keys=[key("a", 77, b"")]), "has a value of the unknown type 77; do not trust it"),
    "an alignment of three": (
        header(keys=[key("general.alignment", 4, struct.pack("<I", 3))]),
        "says general.alignment: 3, which is not a power of two; do not trust it",
    ),
    "no dimensions": (header(tensors=[tensor(shape=())]), "says that its t has 0 dimensions; do not trust it"),
    "many dimensions": (header(tensors=[tensor(shape=(1,) * 5)]), "says that its t has 5 dimensions; do not trust it"),
    "an absurd shape": (
        header(tensors=[tensor(shape=(2**40, 2**40))]),
        f"says that its t has the shape (1099511627776, 1099511627776); {NO}",
    ),
    "an empty dimension": (header(tensors=[tensor(shape=(0, 4))]), f"says that its t has the shape (4, 0); {NO}"),
    "a tensor beyond the file": (header(tensors=[tensor(start=2**40)]), BEYOND),
    "a tensor that is not aligned": (header(tensors=[tensor(start=7)]), BEYOND),
    "a tensor twice": (header(tensors=[tensor()] * 2), "has two tensors of one name; do not trust it"),
}


@pytest.mark.parametrize(("content", "said"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_damaged_or_hostile_is_refused(content, said):
    with pytest.raises(HeaderError) as caught:
        read(content)
    assert str(caught.value) == said


def test_a_header_has_a_longest_length(monkeypatch, content):
    monkeypatch.setattr(gguf_files, "LARGEST_HEADER", 1000)
    with pytest.raises(HeaderError, match="has a header of more than 0 MiB; do not trust it"):
        read(content)


def test_every_truncated_file_is_refused_or_reads_the_same(content):
    whole = read(content)
    for stop in (*range(0, 400, 7), *range(400, whole.tensors[0].start, 997)):
        with pytest.raises(HeaderError, match=r"truncated|no GGUF file"):
            read(content[:stop])


@cases(500)
@given(st.data())
def test_whatever_the_bytes_there_is_a_header_or_our_error(content, data):
    short = content[:400] if data.draw(st.booleans()) else content
    changed = bytearray(short)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, min(len(changed), 400) - 1))
        changed[position] = data.draw(st.sampled_from((0, 1, 8, 9, 127, 128, 255, changed[position] ^ 1)))
    check(bytes(changed))


@cases(500)
@given(st.binary(max_size=200), st.integers(0, 3), st.integers(0, 3))
@example(b"", 0, 0)
@example(struct.pack("<Q", 2**64 - 1), 1, 0)
@example(text("a") + struct.pack("<IIQ", 9, 0, 2**64 - 1), 0, 1)
def test_whatever_follows_the_counts_there_is_a_header_or_our_error(body, tensors, keys):
    check(b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + body)


def check(content: bytes) -> None:
    try:
        found = read(content)
    except HeaderError:
        return
    assert all(tensor.start < len(content) and np.prod(tensor.shape, dtype=float) > 0 for tensor in found.tensors)
    assert all(
        isinstance(text, str) for key in found.metadata for text in texts(io.BytesIO(content), len(content), key)
    )


LIMITED = """
import io, resource, sys
from hf_lineage.checkpoint.foreign_form import HeaderError
from hf_lineage.checkpoint.gguf.files import parse
resource.setrlimit(resource.RLIMIT_AS, (2**28, 2**28))
class Endless(io.RawIOBase):
    "A file of a terabyte: a beginning, then the same bytes again and again."
    def __init__(self, start, again): self.start, self.again, self.at = start, again, 0
    def read(self, count=-1):
        out = self.start[self.at : self.at + count]
        self.at += count
        more = count - len(out)
        return out + (self.again * (more // len(self.again) + 1))[:more]
    def seek(self, offset, whence=0):
        self.at = offset + (self.at if whence == 1 else 0)
        return self.at
for case in sys.argv[1:]:
    start, again = (bytes.fromhex(text) for text in case.split())
    try:
        print(len(parse(Endless(start, again), 2**40).tensors), "tensors")
    except HeaderError as error:
        print(error)
"""
ENDLESS = {
    "a text": (header(counts=(0, MOST_KEYS))[:24] + text("a") + struct.pack("<IQ", 8, 2**39), b"\0" * 8),
    "a list of texts": (
        header(counts=(0, 1))[:24] + text("a") + struct.pack("<IIQ", 9, 8, 2**22),
        struct.pack("<Q", 64) + b"a" * 64,
    ),
    "a list of numbers": (header(counts=(0, 1))[:24] + text("a") + struct.pack("<IIQ", 9, 12, 2**22), b"\0"),
    "tensors": (header(counts=(MOST_TENSORS, 0))[:24], tensor(shape=(1, 1, 1, 1))),
    "keys": (header(counts=(0, MOST_KEYS))[:24], key("a" * 1000, 8, text("b" * 4000))),
}


@pytest.mark.skipif(sys.platform != "linux", reason="the bound on memory is one of Linux")
def test_hostile_headers_are_read_in_little_memory():
    cases = [f"{start.hex()} {again.hex()}" for start, again in ENDLESS.values()]
    command, env = [sys.executable, "-c", LIMITED, *cases], os.environ | {"OMP_NUM_THREADS": "1"}
    found = subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=60)
    assert (found.returncode, found.stderr) == (0, "")
    assert len(found.stdout.splitlines()) == len(ENDLESS), found.stdout
