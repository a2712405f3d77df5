"""Shards: what is written is read back, in one order whatever the order it came in."""

import io
from dataclasses import replace

import numpy as np
import pyarrow.parquet
import pytest

from hf_lineage.errors import SignatureError
from hf_lineage.index.storage import shards
from hf_lineage.index.storage.reader import Reader
from hf_lineage.index.storage.shards import Entry

ENTRY = Entry("org/model", "c" * 40, "mlp", 64, 2, "mlp-robust-64")


def keys(count):
    return np.random.default_rng(0).integers(0, 256, (count, 256), np.uint8)


def test_rows_are_sorted_and_each_is_there_once():
    codes = keys(4)
    far = replace(ENTRY, source="org/index@" + "0" * 40)
    rows = shards.rows([replace(ENTRY, model="org/z"), far, ENTRY, replace(ENTRY, model="org/a")], codes)
    ordered = shards.sorted_rows(rows)
    assert ordered["model"].to_pylist() == ["org/a", "org/model", "org/z"]
    assert ordered["source"].to_pylist() == ["", "", ""]  # what is here comes before what is elsewhere
    (batch,) = ordered.to_batches()
    assert np.array_equal(shards.keys_of(batch), codes[[3, 2, 0]])
    assert np.array_equal(shards.keys_of(batch.slice(1, 2)), codes[[2, 0]])


def test_an_entry_is_told_by_its_commit_path_and_recipe():
    assert ENTRY.identity == replace(ENTRY, layers=3, source="org/index@x").identity
    others = [replace(ENTRY, **change) for change in ({"model": "o"}, {"commit": ""}, {"path": "p"}, {"recipe": "r"})]
    assert len({ENTRY.identity, *(other.identity for other in others)}) == 5


def test_rows_that_come_in_pieces_make_the_same_file(monkeypatch):
    """Groups have one size, whatever the size of the pieces."""
    monkeypatch.setattr(shards, "ROWS", 4)
    rows = shards.rows([replace(ENTRY, model=f"org/{number}") for number in range(11)], keys(11))
    stream = io.BytesIO()
    assert shards.write((batch for size in (1, 3, 7) for batch in rows.to_batches(size)), stream) == 33
    groups = pyarrow.parquet.ParquetFile(stream).metadata
    assert [groups.row_group(number).num_rows for number in range(groups.num_row_groups)] == [4] * 8 + [1]
    assert shards.content(rows) == shards.encoded(*pieces(rows))


def pieces(rows):
    entries = [Entry(**{name: row[name] for name in shards.NAMES}) for row in rows.to_pylist()]
    return entries, keys(11)


def test_keys_of_another_version_are_refused(tmp_path, monkeypatch):
    file = tmp_path / "shard.parquet"
    monkeypatch.setattr(shards, "STAMP", {b"hf_lineage_index": b"9"})
    file.write_bytes(shards.encoded([ENTRY], keys(1)))
    monkeypatch.undo()
    with Reader() as reader, pytest.raises(SignatureError, match="its keys are of version 9, not 1"):
        list(reader.groups(file))
