"""Known models: rows of all files and groups are numbered through, and entries are those of the rows that are meant.

What was passed over is told in one sentence of each kind, however much it is.
"""

from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.index.storage import shards
from hf_lineage.index.storage.known import Known, Passed
from hf_lineage.index.storage.shards import Entry

ENTRY = Entry("org/model", "c" * 40, "mlp", 64, 2, "mlp-robust-64")
SOURCE = "wren/index@" + "0" * 40


@pytest.fixture
def everything():
    """Twenty models of two widths in four groups; those of the last two were pulled."""
    rng, groups = np.random.default_rng(0), []
    for number in range(4):
        entries = [
            replace(ENTRY, model=f"org/{number}-{row}", width=64 + row % 2, source=SOURCE * (number > 1))
            for row in range(5)
        ]
        groups += shards.rows(entries, rng.integers(0, 256, (5, 256), np.uint8)).to_batches()
    return Known(tuple(groups))


def test_rows_of_all_groups_are_numbered_through(everything):
    assert len(everything) == 20
    names = [f"org/{one}-{row}" for one in range(4) for row in range(5)]
    assert [entry.model for entry in everything.entries()] == names
    assert [everything.entry(row).model for row in (0, 4, 5, 17)] == ["org/0-0", "org/0-4", "org/1-0", "org/3-2"]
    assert everything.table()["model"].to_pylist() == names


def test_those_that_can_be_compared_keep_their_keys_and_names(everything):
    alike = everything.like(replace(ENTRY, width=65))
    assert len(alike) == 8
    assert {entry.width for entry in alike.entries()} == {65}
    assert alike.entry(5).model == "org/2-3"
    assert np.array_equal(alike.keys, everything.keys[[row for row in range(20) if row % 5 % 2]])
    assert len(everything.like(replace(ENTRY, recipe="other"))) == 0


def test_one_model_is_left_out_and_a_name_that_is_no_text_is_none_of_them(everything):
    assert len(everything.without("org/1-1@main", "c" * 40)) == 19
    assert len(everything.without("org/1-1", "")) == 20
    assert len(everything.without("./\udc80", "")) == 20


def test_what_was_pulled_is_told_from_what_is_here(everything):
    assert {entry.source for entry in everything.own().entries()} == {""}
    assert [len(everything.own()), len(everything.pulled(SOURCE))] == [10, 10]


def test_an_empty_index_has_no_rows():
    assert (len(Known(())), Known(()).keys.shape, Known(()).entries(), Known(()).table().num_rows) == (
        0,
        (0, 256),
        [],
        0,
    )


def test_nothing_is_told_where_all_was_read():
    assert Passed().notes == []


def test_one_sentence_tells_how_many_and_why_the_first():
    passed = Passed()
    passed.shards |= {"a.parquet": "a.parquet is broken", "b.parquet": "b.parquet is broken"}
    passed.signatures["org/model"] = "there is none"
    assert passed.notes == [
        "2 files of the index could not be read and were left out; the first: a.parquet is broken",
        "1 models of the index could not be read and were left out; the first: there is none",
    ]
