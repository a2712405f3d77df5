"""What all foreign forms share: the names of their files, and that a header is read once and its errors are clear.

A header is read part by part, and never beyond its file or its bound.
"""

import io

import pytest

from hf_lineage.checkpoint.foreign_form import BoundedReader, HeaderError, decode_text, parse_once
from hf_lineage.checkpoint.onnx import header as onnx_header
from hf_lineage.errors import CheckpointError
from hf_lineage.hub.repo import RepoRef


def test_a_file_that_is_none_is_one_clear_line_with_its_name(tmp_path):
    repo, file, parse = RepoRef("org/model", tmp_path), "a.onnx", onnx_header.parse
    for content, words in (
        (b"version https://git-lfs", "is a pointer of git-lfs, not the weights; run `git lfs pull` in its folder"),
        (b"PK\x03\x04", "is "),
    ):
        (tmp_path / file).write_bytes(content)
        with pytest.raises(CheckpointError) as caught:
            parse_once(repo, file, parse)
        assert str(caught.value).startswith(f"org/model: {file} {words}")
    (tmp_path / file).unlink()
    with pytest.raises(CheckpointError, match="cannot be read: No such file or directory"):
        parse_once(repo, file, parse)


def reader(content=bytes(range(8)), size=8, bound=None):
    return BoundedReader(io.BytesIO(content), size, "it ends too early", bound)


def test_parts_are_read_one_after_the_other():
    one = reader()
    assert (one.number("<B"), one.take(2), one.position) == (0, b"\1\2", 3)
    one.skip(4)
    assert (one.number("<B"), one.position) == (7, 8)


@pytest.mark.parametrize("read", [BoundedReader.take, BoundedReader.skip])
@pytest.mark.parametrize("count", [9, 2**62])
def test_nothing_is_read_behind_the_end(read, count):
    with pytest.raises(HeaderError, match="is truncated: it ends too early; download it again"):
        read(reader(), count)


def test_nothing_is_read_behind_the_bound():
    one = reader(size=2**30, bound=2**21)
    with pytest.raises(HeaderError, match="has a header of more than 2 MiB; do not trust it"):
        one.skip(2**21 + 1)


def test_a_file_that_became_shorter_is_an_error():
    with pytest.raises(HeaderError, match="changed while it was read; run again"):
        reader(content=b"").take(4)


def test_what_is_no_text_is_replaced():
    assert decode_text(b"a\xff") == "a\ufffd"
