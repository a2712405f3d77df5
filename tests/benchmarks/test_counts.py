"""The check on speed that needs no clock: nothing takes half as much again as it did when results were committed."""

import json

import pytest

from benchmarks import counts
from benchmarks.isolated import isolated
from benchmarks.shapes import Model
from benchmarks.writing import write_model, write_signatures
from hf_lineage.signature.extraction.whole import extract_paths

COMMITTED = json.loads(counts.FILE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counted") / "model"
    write_model(Model("counted", counts.SHAPE), folder)
    return folder


@pytest.fixture(scope="module")
def signatures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counted") / "signatures"
    write_signatures(folder, counts.SIGNED)
    return folder


def grown(counted):
    """The names of those among some counts that are reported."""
    return list(counts.worse(counted, {name: COMMITTED[name] for name in counted}))


def test_nothing_takes_more_than_it_did():
    assert counts.worse(isolated(counts.counts), COMMITTED) == {}


def test_reading_the_weights_again_is_noticed(model):
    def twice(*arguments):
        extract_paths(*arguments)
        return extract_paths(*arguments)

    assert "extraction: bytes read, by bytes stored" in grown(counts.extraction_counts(twice, model))


def test_half_as_much_again_is_allowed_and_no_more():
    assert counts.worse({"bytes": 3.0}, {"bytes": 2.0}) == {}
    assert counts.worse({"bytes": 3.01}, {"bytes": 2.0}) == {"bytes": "3.01, 1.50 times 2"}
