"""GGUF files of a repository: which one is the model, by name, and what its header says, here or on the Hub."""

import contextlib
import io
import itertools
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hf_lineage.checkpoint.foreign_form import HeaderError
from hf_lineage.checkpoint.gguf import files as gguf_files
from hf_lineage.checkpoint.gguf.files import MOST_KEYS, MOST_TENSORS, GgufTensor, choose_files, parse, read_head, texts
from hf_lineage.errors import CheckpointError, NothingToCompare, OptionError
from hf_lineage.hub.repo import RepoRef, resolve
from tests.gguf_models import KINDS, finish, write
from tests.models import EXAMPLES
from tests.properties import cases
from tests.published.spellings import TABLES

SEVERAL = " holds several models as GGUF (a-1b.gguf, a-7b.gguf); "
SEVERAL += "name one by its path, or with --file for the model that is judged; --file all judges each"
HAS, TWO = "(it has a-Q8_0.gguf); name another", "a-Q8_0.gguf a.safetensors"
LACKS = ": a-00002-of-00002.gguf is missing; download all parts of the model"
GIT_LFS = "is a pointer of git-lfs, not the weights; run `git lfs pull`"
UNREAD = [(b"version https://git-lfs.github.com/spec/v1\n", GIT_LFS), (b"GGUF\3\0", "is truncated: it ends within its")]
SHORT = "is truncated: it ends within its header; download it again"
NO_POWER = "general.alignment: 3, which is not a power of two"
BOTH, AT_MOST = (2**40, 2**40), "hf-lineage reads at most"
READ, NO = "only little-endian versions 2 and 3 are read; convert the model again", "do not trust it"
BEYOND = "is truncated or damaged: its t begins behind its end; download it again"
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
NOT_ONE = [
    (NothingToCompare, "a-1b.gguf a-7b.gguf", None, SEVERAL),
    (CheckpointError, "a-00001-of-00002.gguf", None, LACKS),
    *((OptionError, TWO, name, f" has no GGUF file {name} {HAS}") for name in ("nothing.gguf", "../other.gguf")),
]


@pytest.mark.parametrize(("names", "chosen"), TABLES["gguf_files"])
def test_the_most_precise_file_by_its_name_is_the_model(files, names, chosen):
    assert choose_files(files(*names)) == tuple(chosen)


@pytest.mark.parametrize(("kind", "names", "named", "said"), NOT_ONE)
def test_several_models_and_files_that_are_not_there_are_refused_with_their_names(files, kind, names, named, said):
    with pytest.raises(kind, match=f"^org/model{re.escape(said)}$"):
        choose_files(files(*names.split(), file=named))


@pytest.mark.parametrize(("content", "said"), [*UNREAD, (None, "is a link out of the model's folder")])
def test_an_error_names_the_model_and_the_file(tmp_path, content, said):
    file = tmp_path / "inside/a.gguf"
    file.parent.mkdir()
    file.write_bytes(content) if content else file.symlink_to(__file__)
    with pytest.raises(CheckpointError, match=rf"^org/model: .*a\.gguf {re.escape(said)}"):
        read_head(RepoRef("org/model", file.parent), "a.gguf")


@pytest.fixture
def published(online, tmp_path):
    file = write(EXAMPLES / "fern/llama-finetune-a", tmp_path / "published/a.gguf", said={"general.name": "a name"})
    online.publish("fern/gguf", file.parent)
    return read_head(RepoRef("here", file.parent), file.name)[:2]


def test_of_a_file_on_the_hub_the_header_alone_is_fetched_once_or_read_in_the_cache(online, published, tmp_path):
    repo = resolve("fern/gguf")
    assert choose_files(repo) == ("a.gguf",)
    found = read_head(repo, "a.gguf")
    assert (found[:2], found.stamp) == (published, None)
    assert found.downloaded == online.moved("fern/gguf") < (tmp_path / "published/a.gguf").stat().st_size / 4
    online.forget()
    assert read_head(repo, "a.gguf") is found
    assert online.requests == []
    repo.fetch("a.gguf")
    online.forget()
    assert read_head(resolve("fern/gguf"), "a.gguf").stamp is not None
    assert online.moved() == 0


def test_a_longer_header_is_fetched_piece_by_piece(online, published, monkeypatch):
    monkeypatch.setattr("hf_lineage.checkpoint.gguf.files.HEAD", 64)
    found = read_head(resolve("fern/gguf"), "a.gguf")
    assert found[:2] == published
    assert 4 < found.requests < 10
    assert online.twice() == []


def written(folder: Path) -> Path:
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


def read(content: bytes) -> gguf_files.Head:
    return parse(io.BytesIO(content), len(content))


def listed(content: bytes, name: str) -> tuple[str, ...]:
    return texts(io.BytesIO(content), len(content), name)


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


def words(*values, count=None, kind=8):
    """A list of texts, or a list that says that it is something else."""
    return struct.pack("<IQ", kind, len(values) if count is None else count) + b"".join(map(text, values))


def tensor(name="t", shape=(4,), kind=0, start=0):
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, start)


def test_short_values_are_kept_lists_read_later_and_tensors_are_those_of_gguf(content, tmp_path):
    shorts = {"llama.block_count": 2, "llama.eps": 0.5, "llama.causal": True, "llama.heads": (4, 2)}
    assert read(content).metadata == {"general.architecture": "llama", "general.name": "a name"} | shorts
    values = {"first": words("no"), "words": words("a", "", "ü"), "numbers": struct.pack("<IQI", 4, 1, 7)}
    lists = header(keys=[*(key(name, 9, value) for name, value in values.items()), key("x", 8, text("a"))])
    read_as = {name: listed(lists, name) for name in ("words", "x", "nothing", "numbers")}
    assert read_as == {"words": ("a", "", "ü"), "x": (), "nothing": (), "numbers": ()}
    too_many = {2**62: f"a list of {2**62} items", 2**20 + 1: "a list of 1048577 texts", 2**20: "is truncated"}
    for count, said in too_many.items():
        with pytest.raises(HeaderError, match=said):
            listed(header(keys=[key("words", 9, words("a", count=count))]), "words")
    file = written(tmp_path)
    assert read(file.read_bytes()).tensors == tuple(
        GgufTensor(each.name, (*map(int, each.shape[::-1]),), int(each.tensor_type), int(each.data_offset))
        for each in gguf.GGUFReader(str(file)).tensors
    )
    out = gguf.GGUFWriter(str(tmp_path / "x.gguf"), "llama")
    out.add_custom_alignment(256)
    out.add_tensor("a", np.ones(4, np.float32))
    finish(out)
    content = (tmp_path / "x.gguf").read_bytes()
    (found,) = read(content).tensors
    assert found.start % 256 == 0
    assert np.frombuffer(content[found.start :][:16], np.float32).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"version https://git-lfs", "is not a GGUF file; have it saved again"),
        (b"", SHORT),
        (header(version=1), f"is of version 1; {READ}"),
        (header(version=3 << 24), f"is written for big-endian machines; {READ}"),
        (header(counts=(0, 10**6)), f"claims 1000000 keys; {AT_MOST} {MOST_KEYS}; {NO}"),
        (header(counts=(10**6, 0)), f"claims 1000000 tensors; {AT_MOST} {MOST_TENSORS}; {NO}"),
        (header(counts=(0, 5))[:24], SHORT),
        (header(keys=[key("a", 0, b"\0")] * 2), "has the key 'a' twice; do not trust it"),
        (header(keys=[struct.pack("<Q", 2**40)]), "has a name of 1099511627776 bytes; do not trust it"),
        (header(keys=[key("a", 8, struct.pack("<Q", 2**60))]), SHORT),
        (header(keys=[key("a", 9, words(count=2**60))]), f"has a list of {2**60} items; {NO}"),
        (header(keys=[key("a", 9, words(kind=12, count=2**22))]), SHORT),
        (header(keys=[key("a", 9, words(kind=9, count=1))]), f"has a list of the unknown type 9; {NO}"),
        (header(keys=[key("a", 77, b"")]), "has a value of the unknown type 77; do not trust it"),
        (header(keys=[key("general.alignment", 4, b"\3\0\0\0")]), f"says {NO_POWER}; {NO}"),
        (header(tensors=[tensor(shape=())]), "says that its t has 0 dimensions; do not trust it"),
        (header(tensors=[tensor(shape=(1,) * 5)]), "says that its t has 5 dimensions; do not trust it"),
        (header(tensors=[tensor(shape=(2**40, 2**40))]), f"says that its t has the shape {BOTH}; {NO}"),
        (header(tensors=[tensor(shape=(0, 4))]), f"says that its t has the shape (4, 0); {NO}"),
        *((header(tensors=[tensor(start=start)]), BEYOND) for start in (2**40, 7)),
        (header(tensors=[tensor()] * 2), "has two tensors of one name; do not trust it"),
    ],
    ids=itertools.count(),
)
def test_what_is_damaged_or_hostile_is_refused(content, said):
    with pytest.raises(HeaderError, match=f"^{re.escape(said)}$"):
        read(content)


def test_a_header_has_a_longest_length_and_every_truncated_file_is_refused(monkeypatch, content):
    for stop in (*range(0, 400, 7), *range(400, read(content).tensors[0].start, 997)):
        with pytest.raises(HeaderError, match=r"truncated|no GGUF file"):
            read(content[:stop])
    monkeypatch.setattr(gguf_files, "LARGEST_HEADER", 1000)
    with pytest.raises(HeaderError, match="has a header of more than 0 MiB; do not trust it"):
        read(content)


@cases(500)
@given(st.binary(max_size=200), st.integers(0, 3), st.integers(0, 3))
@example(b"", 0, 0)
@example(struct.pack("<Q", 2**64 - 1), 1, 0)
@example(text("a") + struct.pack("<IIQ", 9, 0, 2**64 - 1), 0, 1)
def test_whatever_follows_the_counts_there_is_a_header_or_our_error(body, tensors, keys):
    content = b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + body
    with contextlib.suppress(HeaderError):
        found = read(content)
        assert all(tensor.start < len(content) and np.prod(tensor.shape, dtype=float) > 0 for tensor in found.tensors)
        assert all(isinstance(text, str) for key in found.metadata for text in listed(content, key))


NO_TENSORS = header(counts=(0, MOST_KEYS))[:24]
ENDLESS = [
    (NO_TENSORS + key("a", 8, struct.pack("<Q", 2**39)), b"\0" * 8),
    (NO_TENSORS + key("a", 9, words(count=2**22)), text("a" * 64)),
    (NO_TENSORS + key("a", 9, words(kind=12, count=2**22)), b"\0"),
    (header(counts=(MOST_TENSORS, 0))[:24], tensor(shape=(1, 1, 1, 1))),
    (NO_TENSORS, key("a" * 1000, 8, text("b" * 4000))),
]


@pytest.mark.skipif(sys.platform != "linux", reason="the bound on memory is one of Linux")
def test_hostile_headers_are_read_in_little_memory():
    command = [sys.executable, "-c", LIMITED, *(f"{start.hex()} {again.hex()}" for start, again in ENDLESS)]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    found = subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=60)
    assert (found.returncode, found.stderr) == (0, "")
    assert len(found.stdout.splitlines()) == len(ENDLESS), found.stdout
