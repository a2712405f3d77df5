import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hf_lineage.files.safetensors import FileChangedError, HeaderLengthError, Stamp, opened_header, read_into
from tests.models import raw_safetensors

ONE = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


@pytest.fixture
def file(tmp_path):
    raw_safetensors(tmp_path / "x.safetensors", ONE, b"12345678")
    return tmp_path / "x.safetensors"


def open_files():
    return len(list(Path("/dev/fd").iterdir()))


def test_a_header_says_what_stands_where_whatever_becomes_of_the_file_meanwhile(file, monkeypatch):
    """Nothing is left open; without nameless files the file itself is mapped."""
    before = open_files()
    with monkeypatch.context() as patched:
        patched.delattr(os, "memfd_create")
        with opened_header(file) as (opened, _, _):
            assert list(opened.offset_keys()) == ["a"]
    with opened_header(file) as (opened, begin, stamp):
        assert (list(opened.offset_keys()), file.read_bytes()[begin:]) == (["a"], b"12345678")
        assert stamp.size == file.stat().st_size
        os.truncate(file, 0)
        assert opened.get_slice("a").get_shape() == [2]
    assert open_files() == before


@pytest.mark.parametrize("content", [b"", b"1234567", b"\x01" + b"\0" * 7 + b"{", b"\xff" * 20])
def test_a_length_that_cannot_be_is_refused_before_anything_is_read(file, content):
    file.write_bytes(content)
    message = r"the header claims \d+ bytes in a file of \d+"
    with pytest.raises(HeaderLengthError, match=message), opened_header(file):
        pass


@pytest.mark.parametrize("at_a_place", [True, False])
def test_bytes_are_read_where_they_are_and_others_are_an_error_and_no_signal(file, monkeypatch, at_a_place):
    """Where no bytes can be read at a place they are read one after another."""
    if not at_a_place:
        monkeypatch.delattr(os, "preadv")
    room = bytearray(4)
    read_into(file, file.stat().st_size - 6, memoryview(room), Stamp.take(file))
    assert room == b"3456"
    with pytest.raises(FileChangedError, match="the file changed after its header was read"):
        read_into(file, file.stat().st_size - 6, memoryview(bytearray(7)), None)


def test_a_file_that_changes_while_it_is_read_is_an_error(file, monkeypatch):
    """Its state is looked at before and after: here all the bytes are there, and its time is another one after."""
    before, read, counts = Stamp.take(file), os.preadv, []

    def read_and_change(*arguments):
        counts.append(read(*arguments))
        os.utime(file, ns=(0, before.modified + 1))
        return counts[-1]

    monkeypatch.setattr(os, "preadv", read_and_change)
    with pytest.raises(FileChangedError):
        read_into(file, 0, memoryview(bytearray(8)), before)
    assert counts == [8]


def test_a_file_is_opened_once_and_no_more_stay_open_than_a_process_may_have(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_lineage.files.safetensors.MOST_OPEN", 3)
    before, stamps = open_files(), []
    (tmp_path / "x").write_bytes(bytes(range(256)) * 64)
    stamps.append(Stamp.take(tmp_path / "x"))

    def read(start):
        room = bytearray(64)
        read_into(tmp_path / "x", start, memoryview(room), stamps[0])
        return room[0]

    starts = [(37 * n) % 16000 for n in range(400)]
    with ThreadPoolExecutor(8) as pool:  # several threads read one file at once, and it is opened once
        assert list(pool.map(read, starts)) == [start % 256 for start in starts]
    assert open_files() == before + 1
    stamps.clear()
    assert open_files() == before
    for number in range(10):
        (tmp_path / f"{number}").write_bytes(bytes([number]))
        stamps.append(Stamp.take(tmp_path / f"{number}"))
        read_into(tmp_path / f"{number}", 0, memoryview(bytearray(1)), stamps[-1])
    assert open_files() <= before + 3
    read_into(tmp_path / "0", 0, memoryview(bytearray(1)), stamps[0])


def test_a_file_that_takes_its_place_is_not_read_nor_kept_where_it_was_opened(file, monkeypatch):
    stamp, other = Stamp.take(file), file.with_name("other")
    other.write_bytes(file.read_bytes())
    with monkeypatch.context() as patched:
        patched.setattr("hf_lineage.files.safetensors.descriptor", lambda _: os.open(other, os.O_RDONLY))
        with pytest.raises(FileChangedError):
            read_into(file, 0, memoryview(bytearray(8)), stamp)
    read_into(file, 0, memoryview(bytearray(8)), stamp)
    other.replace(file)
    with pytest.raises(FileChangedError):
        read_into(file, 0, memoryview(bytearray(8)), stamp)
    file.unlink()
    os.mkfifo(file)  # is an error and no wait
    with pytest.raises(FileChangedError):
        read_into(file, 0, memoryview(bytearray(8)), stamp)
    with pytest.raises(OSError, match="it is a pipe or a device, not a regular file"):
        read_into(file, 0, memoryview(bytearray(8)), None)
