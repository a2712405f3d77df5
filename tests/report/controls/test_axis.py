"""The axis: one scale for all, each null where it is, and what lies beyond the end is an arrow."""

import pytest
from lxml import etree

from hf_lineage.report.controls.axis import axis, enlarged, points, whole
from hf_lineage.report.controls.rows import lines
from tests.pages import HOSTILE
from tests.report.controlled import controlled, hostile

SVG = "{*}"


@pytest.fixture(scope="module")
def shown():
    return points(lines(controlled()), "mlp")


def drawn(shown, span):
    return etree.fromstring(axis(shown, span, "x"))


def test_only_what_was_measured_is_on_the_axis(shown):
    assert [point.line.name for point in shown] == ["org/model", "free/a", "free/b", "kin/a"]
    assert points(lines(controlled()), "value_output") == []


def test_the_whole_axis_holds_every_score_every_null_and_1(shown):
    low, high = whole(shown)
    assert high == 1.0
    assert all(low <= point.null.scores.min() and low <= point.null.observed <= high for point in shown)


def test_the_nulls_are_enlarged_where_the_scores_lie_far_from_them(shown):
    low, high = enlarged(shown)
    assert -0.1 < low < high < 0.1
    assert enlarged(points(lines(controlled()), "mlp")[1:3]) is not None


def test_marks_stand_where_their_scores_are(shown):
    root = drawn(shown, (0.0, 1.0))
    circle = root.find(f"{SVG}g/{SVG}circle")
    assert float(circle.get("cx")) == pytest.approx(14 + shown[1].null.observed * 332, abs=0.1)
    assert len(root.findall(f"{SVG}g")) == 4


def test_a_score_beyond_the_end_is_an_arrow(shown):
    root = drawn(shown, enlarged(shown))
    arrows = [one for one in root.iterfind(f"{SVG}g/{SVG}path") if one.get("class") == "dot model"]
    assert len(arrows) == 2


def test_the_picture_is_told_in_words_as_well(shown):
    root = drawn(shown, (0.0, 1.0))
    title, described = (root.find(f"{SVG}{name}").text for name in ("title", "desc"))
    assert title == "Scores of 4 pairs on one axis from 0.000 to 1.000"
    assert described.startswith("org/model, the pair: RELATED, 0.970; null −0.0")
    assert "free/a, independent: UNRELATED, 0.011; null" in described
    assert (root.get("aria-labelledby"), root.get("aria-describedby")) == ("x-title", "x-desc")


def test_a_hostile_name_changes_no_element():
    tags = [[one.tag for one in drawn(points(lines(hostile(name)), "mlp"), (0, 1)).iter()] for name in (HOSTILE, "n")]
    assert tags[0] == tags[1]
