"""Known models: keys of all, names of those that are asked for, from large shards as from small ones."""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.index import known as module
from hf_lineage.index import shards
from hf_lineage.index.catalogue import Catalogue
from hf_lineage.index.shards import Entry

ENTRY = Entry("org/model", "c" * 40, "mlp", 64, 2, "mlp-robust-64")


@pytest.fixture(params=["small", "large"])
def catalogue(request, tmp_path, monkeypatch):
    """Two shards of models of two widths; of large ones names are read later, a group at a time."""
    if request.param == "large":
        monkeypatch.setattr(module, "SMALL", 0)
    monkeypatch.setattr(shards, "ROWS", 4)
    monkeypatch.setattr(module, "ROWS", 4)
    rng = np.random.default_rng(0)
    for number in range(2):
        entries = [replace(ENTRY, model=f"org/{number}-{row}", width=64 + row % 2) for row in range(10)]
        (tmp_path / "keys").mkdir(exist_ok=True)
        content = shards.encoded(entries, rng.integers(0, 256, (10, 256), np.uint8))
        (tmp_path / "keys" / f"{number}.parquet").write_bytes(content)
    return Catalogue(tmp_path)


def test_rows_of_all_shards_are_numbered_through(catalogue):
    known = catalogue.read()
    assert len(known) == 20
    assert [entry.model for entry in known.entries()] == [f"org/{one}-{row}" for one in range(2) for row in range(10)]
    assert [known.entry(row).model for row in (0, 9, 10, 17)] == ["org/0-0", "org/0-9", "org/1-0", "org/1-7"]
    assert known.table()["model"].to_pylist() == [entry.model for entry in known.entries()]


def test_those_that_can_be_compared_keep_their_keys_and_names(catalogue):
    everything = catalogue.read()
    alike = everything.like(replace(ENTRY, width=65))
    assert len(alike) == 10
    assert {entry.width for entry in alike.entries()} == {65}
    assert alike.entry(7).model == "org/1-5"
    assert np.array_equal(alike.keys, everything.keys[[row for row in range(20) if row % 2]])
    assert len(everything.like(replace(ENTRY, recipe="other"))) == 0


def test_names_are_not_read_for_a_search(catalogue, monkeypatch):
    known = catalogue.read()
    columns = {name for part in known.parts for name in part.searched.column_names}
    large = known.parts[0].shard is not None
    assert ("model" in columns) is not large
