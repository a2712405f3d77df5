"""Each figure is shown with what became of its target."""

import pytest

from tools.measured import outcome


@pytest.mark.parametrize(
    ("target", "measured", "met", "words"),
    [
        ("≤ 2 s", 1.0, True, "met"),
        ("≤ 2 s", 3.0, False, "**missed**"),
        ("≤ 2 s", None, False, "not measured"),
        ("none", 3.0, True, "–"),
    ],
)
def test_a_figure_meets_its_target_or_misses_it_or_has_none(target, measured, met, words):
    assert outcome({"target": target, "measured": measured, "met": met}) == words
