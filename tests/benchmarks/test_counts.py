"""The check on speed that needs no clock: nothing takes half as much again as it did when results were committed."""

import json
from dataclasses import replace

import pytest
import torch

from benchmarks import counts
from benchmarks.isolated import isolated
from benchmarks.shapes import Model
from benchmarks.writing import write_model, write_signatures
from hf_lineage.checkpoint.tensor import single
from hf_lineage.evidence.nulls.permutation import permutation_null
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


def test_forming_the_product_is_noticed(model):
    def dense(checkpoint, layout, recipe, paths):
        return extract_paths(checkpoint, layout, replace(recipe, probes=None), paths)

    assert "extraction: multiplications, by 4dhkL" in grown(counts.extraction_counts(dense, model))


def test_holding_the_model_in_memory_is_noticed(model):
    def hoarding(checkpoint, layout, recipe, paths):
        held = [torch.from_numpy(single(checkpoint.read(name))).clone() for name in checkpoint.tensors]
        return extract_paths(checkpoint, layout, recipe, paths) if held else {}

    assert grown(counts.extraction_counts(hoarding, model))[-1] == (
        "extraction: most bytes at once, by bytes stored of a layer"
    )


def test_one_relabelling_at_a_time_is_noticed(signatures):
    def one_by_one(a, b, permutations, seed):
        return [permutation_null(a, b, 1, seed + number) for number in range(permutations)]

    assert grown(counts.comparison_counts(one_by_one, signatures)) == ["permutation test: calls for each permutation"]


def test_importing_torch_at_the_start_is_noticed():
    program = counts.START.replace("main(sys", "import torch; main(sys")
    name = "start-up: modules for --help"
    assert grown({name: counts.modules(program, "--help")}) == [name]


def test_a_count_that_nobody_committed_is_noticed():
    assert counts.worse({"new": 1.0}, {"old": 1.0}) == {"new": "not on both sides", "old": "not on both sides"}


def test_half_as_much_again_is_allowed_and_no_more():
    assert counts.worse({"bytes": 3.0}, {"bytes": 2.0}) == {}
    assert counts.worse({"bytes": 3.01}, {"bytes": 2.0}) == {"bytes": "3.01, 1.50 times 2"}


def test_every_weight_is_seen_to_be_read(model):
    assert counts.extraction_counts(extract_paths, model)["extraction: bytes read, by bytes stored"] >= 1
