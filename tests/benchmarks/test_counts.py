"""The check on speed that needs no clock: nothing takes half as much again as it did when results were committed."""

import json

import pytest

from benchmarks import counts
from benchmarks.isolated import isolated
from benchmarks.shapes import Model
from benchmarks.writing import write_model
from hf_lineage.signature.extract import extract_paths

COMMITTED = json.loads(counts.FILE.read_text(encoding="utf-8"))


@pytest.mark.long
def test_nothing_takes_more_than_it_did():
    assert counts.worse(isolated(counts.counts), COMMITTED) == {}


def test_reading_the_weights_again_is_noticed(tmp_path):
    def twice(*arguments):
        extract_paths(*arguments)
        return extract_paths(*arguments)

    write_model(Model("counted", counts.SHAPE), tmp_path / "model")
    once = counts.extraction_counts(extract_paths, tmp_path / "model")
    assert counts.worse(once, {name: COMMITTED[name] for name in once}) == {}
    counted = counts.extraction_counts(twice, tmp_path / "model")
    grown = counts.worse(counted, {name: COMMITTED[name] for name in counted})
    assert "extraction: bytes read, by bytes stored" in grown


def test_half_as_much_again_is_allowed_and_no_more():
    assert counts.worse({"bytes": 3.0}, {"bytes": 2.0}) == {}
    assert counts.worse({"bytes": 3.01}, {"bytes": 2.0}) == {"bytes": "3.01, 1.50 times 2"}
