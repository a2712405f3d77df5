"""Rows that come group by group become one file, whole or not at all, without those that are known."""

from dataclasses import replace

import pytest

from hf_lineage.errors import NetworkError, SignatureError
from hf_lineage.index.storage import shards
from hf_lineage.index.storage.reader import Reader
from hf_lineage.index.storage.shards import identities, merged
from tests.index.foreign import ENTRY, keys


def batches(*numbers):
    entries = [replace(ENTRY, model=f"org/{number}") for number in numbers]
    return shards.rows(entries, keys(len(numbers))).to_batches()


def models(folder):
    with Reader() as reader:
        return [name for file in folder.iterdir() for rows in reader.groups(file) for name in rows["model"].to_pylist()]


def test_each_row_is_written_once_and_none_that_is_known(tmp_path):
    known = {one for rows in batches(2, 3) for one in identities(rows)}
    pieces = (rows for numbers in ([0, 1, 2], [1, 3], [4, 4]) for rows in batches(*numbers))
    assert merged(pieces, known, tmp_path / "keys", ".parquet") == 3
    assert models(tmp_path / "keys") == ["org/0", "org/1", "org/4"]


def test_nothing_new_is_no_file(tmp_path):
    known = {one for rows in batches(0) for one in identities(rows)}
    assert merged(iter(batches(0)), known, tmp_path, ".parquet") == 0
    assert list(tmp_path.iterdir()) == []


def test_a_pull_that_breaks_off_leaves_nothing(tmp_path):
    def broken():
        yield from batches(0)
        raise NetworkError("the Hub went away")

    with pytest.raises(NetworkError):
        merged(broken(), set(), tmp_path, ".parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "keys").write_bytes(b"")
    with pytest.raises(SignatureError, match="keys cannot be made"):
        merged(iter(batches(0)), set(), tmp_path / "keys", ".parquet")
