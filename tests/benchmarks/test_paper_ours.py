"""The experiments of our own: their parts on cases whose answer is known, and what their committed rows say."""

import pytest

from benchmarks.paper.experiment import Results
from benchmarks.paper.items import ours_adapters, ours_frames
from benchmarks.paper.parts import adapters
from hf_lineage.evidence import unit_comparison as framed_verdict
from tests.benchmarks.test_paper_results import FILES
from tests.example_evidence import trace


def committed(item):
    """The rows that are committed for an item, by name."""
    return {row.name: row for row in Results.read(FILES[item]).rows}


def test_the_interval_of_a_rate_draws_whole_bases_and_not_pairs():
    family, configuration = adapters.Family("Llama", 32), ours_adapters.CONFIGURATIONS[0]
    low, high = (trace(observed=observed) for observed in (-1.0, 2.0))
    pairs = [
        adapters.Pair(family, configuration, 1, own, base, "UNRELATED", False, high if own == 0 else low)
        for own in range(10)
        for base in range(10)
        if own != base
        for _ in range(20)
    ]
    found = adapters.rate(pairs, 0.01)
    assert (found.share, found.pairs, found.low) == (pytest.approx(0.1), 1800, 0)
    assert found.high > 0.25  # of as many pairs by themselves the interval would end at 0.115


def test_there_are_as_many_bases_and_false_pairs_as_the_claim_needs():
    rows = committed("ours:adapters")
    pairs = rows["false pairs rejected at 0.01"].note.split(" pairs")[0]
    found = [row.note.partition(" of ")[2].partition(";")[0] for name, row in rows.items() if name.endswith(": found")]
    assert int(pairs) >= 1300
    assert rows[ours_adapters.WRONG].number <= 2
    assert sum(map(int, found)) >= 15 * 4 * 3


def test_the_threshold_of_calibrated_evidence_is_that_of_the_committed_pairs():
    rows = committed("ours:frames")
    assert framed_verdict.CALIBRATION == "benchmarks/results/ours-frames.json"
    assert rows[ours_frames.PAIRS].number == framed_verdict.PAIRS > 1000
    assert rows[ours_frames.LARGEST].number <= framed_verdict.LARGEST < framed_verdict.CALIBRATED / 1.5
