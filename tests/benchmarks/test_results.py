"""Rows: when a target is met, and what a reader sees of it."""

import pytest

from benchmarks.results import Row, Target


@pytest.mark.parametrize(
    ("target", "text", "met", "ratio", "missed"),
    [
        (Target(high=2.0), "≤ 2", 1.0, 2.0, 2.1),
        (Target(low=10), "≥ 10", 25.0, 2.5, 9.9),
        (Target(0.85, 1.15), "0.85 to 1.15", 0.95, 3.0, 1.2),
    ],
)
def test_a_target_is_a_range(target, text, met, ratio, missed):
    assert (str(target), target.holds(met), target.holds(missed)) == (text, True, False)
    assert target.ratio(met) == pytest.approx(ratio)
    assert target.ratio(missed) < 1


def test_what_was_not_measured_is_not_met():
    row = Row("compare", Target(low=1), None, "× faster", "no network")
    assert row.as_json() == {
        "what": "compare",
        "target": "≥ 1 × faster",
        "measured": None,
        "unit": "× faster",
        "met": False,
        "note": "no network",
    }
