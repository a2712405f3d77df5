"""What was passed over is told in one sentence of each kind, however much it is."""

from hf_lineage.index.storage.passing import Passed


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
