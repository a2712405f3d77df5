import os
import subprocess
import sys
from pathlib import Path

import pytest

from hf_lineage.files.tensor_file import Changed, HeaderLengthError, Stamp, opened_header, read_into
from tests.invoking import environment
from tests.models import raw_safetensors

ONE = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


@pytest.fixture
def file(tmp_path):
    raw_safetensors(tmp_path / "x.safetensors", ONE, b"12345678")
    return tmp_path / "x.safetensors"


def names(file):
    with opened_header(file) as (opened, _, _):
        return opened.offset_keys()


def test_a_header_says_what_stands_where_and_in_which_file(file):
    with opened_header(file) as (opened, begin, stamp):
        assert list(opened.offset_keys()) == ["a"]
        assert file.read_bytes()[begin:] == b"12345678"
        assert stamp.size == file.stat().st_size


def test_what_becomes_of_a_file_while_its_header_is_looked_at_is_no_matter(file):
    with opened_header(file) as (opened, _, _):
        os.truncate(file, 0)
        assert opened.get_slice("a").get_shape() == [2]


def test_without_nameless_files_the_file_itself_is_mapped(file, monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    assert list(names(file)) == ["a"]


def test_a_header_leaves_nothing_open(file):
    before = len(list(Path("/dev/fd").iterdir()))
    names(file)
    assert len(list(Path("/dev/fd").iterdir())) == before


@pytest.mark.parametrize("content", [b"", b"1234567", b"\x01" + b"\0" * 7 + b"{", b"\xff" * 20])
def test_a_length_that_cannot_be_is_refused_before_anything_is_read(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(HeaderLengthError, match=r"the header claims \d+ bytes of a file of \d+"):
        names(tmp_path / "x")


def test_bytes_are_read_where_they_are(file):
    room = bytearray(4)
    read_into(file, file.stat().st_size - 6, memoryview(room), None)
    assert room == b"3456"


def test_bytes_that_are_not_there_are_an_error_and_no_signal(file):
    with pytest.raises(Changed, match="the file has changed since its header was read"):
        read_into(file, file.stat().st_size - 6, memoryview(bytearray(7)), None)


def test_a_file_that_changes_while_it_is_read_is_an_error(file, monkeypatch):
    """Its state is looked at before and after: here it is another one after."""
    with file.open("rb") as stream:
        before = Stamp.of(stream)
    states = iter((before, before._replace(modified=before.modified + 1)))
    monkeypatch.setattr(Stamp, "of", lambda stream: next(states))
    with pytest.raises(Changed):
        read_into(file, 0, memoryview(bytearray(8)), before)


def test_a_mapped_file_that_shrinks_kills_the_process_and_one_that_is_read_does_not(tmp_path):
    """Why nothing is mapped: the same change, met by safetensors and met by us."""
    shape = [2**20]
    header = {"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, 2**22]}}
    raw_safetensors(tmp_path / "x", header)
    script = (
        "import os, sys, safetensors\n"
        f"file = {str(tmp_path / 'x')!r}\n"
        "os.truncate(file, os.path.getsize(file) + 2**22)\n"
        "opened = safetensors.safe_open(file, framework='pt')\n"
        "tensor = opened.get_tensor('a')\n"
        "os.truncate(file, 100)\n"
        "print(tensor.sum())\n"
    )
    assert subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True).returncode < 0
    with pytest.raises(Changed):
        read_into(tmp_path / "x", 2**20, memoryview(bytearray(8)), None)
