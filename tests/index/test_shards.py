"""Shards: what is written is read back, in one order whatever the order it came in."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.errors import SignatureError
from hf_lineage.index import shards
from hf_lineage.index.shards import Entry

ENTRY = Entry("org/model", "c" * 40, "mlp", 64, 2, "mlp-robust-64")


def keys(count):
    return np.random.default_rng(0).integers(0, 256, (count, 256), np.uint8)


def table(tmp_path, entries, codes):
    file = tmp_path / "shard.parquet"
    file.write_bytes(shards.encoded(entries, codes))
    return shards.rows_of(file, shards.opened(file), (*shards.NAMES, "key"))


def test_keys_are_read_as_they_were_written(tmp_path):
    codes = keys(5)
    rows = table(tmp_path, [replace(ENTRY, model=f"org/{number}") for number in range(5)], codes)
    assert np.array_equal(shards.keys_of(rows), codes)
    assert np.array_equal(shards.keys_of(rows.slice(2, 2)), codes[2:4])


def test_rows_are_sorted_and_each_is_there_once(tmp_path):
    codes = keys(4)
    far = replace(ENTRY, source="org/index@" + "0" * 40)
    rows = table(tmp_path, [replace(ENTRY, model="org/z"), far, ENTRY, replace(ENTRY, model="org/a")], codes)
    ordered = shards.sorted_rows(rows)
    assert ordered["model"].to_pylist() == ["org/a", "org/model", "org/z"]
    assert ordered["source"].to_pylist() == ["", "", ""]  # what is here comes before what is elsewhere
    assert np.array_equal(shards.keys_of(ordered), codes[[3, 2, 0]])


def test_an_entry_is_told_by_its_commit_path_and_recipe():
    assert ENTRY.identity == replace(ENTRY, layers=3, source="org/index@x").identity
    others = [replace(ENTRY, **change) for change in ({"model": "o"}, {"commit": ""}, {"path": "p"}, {"recipe": "r"})]
    assert len({ENTRY.identity, *(other.identity for other in others)}) == 5


def test_keys_of_another_version_are_refused(tmp_path, monkeypatch):
    file = tmp_path / "shard.parquet"
    monkeypatch.setattr(shards, "STAMP", {b"hf_lineage_index": b"9"})
    file.write_bytes(shards.encoded([ENTRY], keys(1)))
    monkeypatch.undo()
    with pytest.raises(SignatureError, match="its keys are of version 9, not 1"):
        shards.opened(file)
