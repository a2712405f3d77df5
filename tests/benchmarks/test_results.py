"""Rows: when a target is met, and what a reader sees of it."""

import io
import math

import pytest
from rich.console import Console

from benchmarks.results import Row, Target, show


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


def test_without_bounds_a_figure_is_there_for_comparison():
    row = Row("extract", Target(), 3.0, "× roofline", "")
    assert (row.as_json()["target"], row.met) == ("none", True)


def test_nothing_is_better_than_no_cost_at_all():
    assert Target(high=4).ratio(0.0) == math.inf


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


def test_figures_are_rounded_to_what_they_are_worth():
    assert Row("x", Target(high=1), 0.123456, "s", "").as_json()["measured"] == 0.1235


def test_the_table_fits_eighty_columns():
    rows = [
        Row(
            "compare two 1.3B folders, next to some other tool",
            Target(low=1000),
            123456.0,
            "standard errors",
            "n " * 99,
        ),
        Row("growth", Target(0.85, 1.15), None, "exponent", "not measured"),
        Row("extract", Target(), 3.0, "× roofline", "for comparison"),
        Row("start", Target(high=1), 2.0, "s", "too slow"),
    ]
    out = io.StringIO()
    show(rows, Console(file=out, width=80))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert any("≥ 1000" in line and "1.23e+05" in line and "123.46" in line and "met" in line for line in lines)
    assert any("≤ 1" in line and "missed" in line for line in lines)
    assert "  2  not measured" in lines
