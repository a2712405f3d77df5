"""The page beside controls: whole on a phone in a real browser, nothing loaded, and no name leaves its place.

The axis: one scale for all, each null where it is, and what lies beyond the end is an arrow.
"""

import pytest
from lxml import etree
from lxml import html as parser

from hf_lineage.checking.controls import Control
from hf_lineage.report.controls.page import axis, enlarged, points, render, whole
from hf_lineage.report.controls.rows import lines
from tests.pages import HOSTILE
from tests.report.controlled import compared, controlled, hostile, unread, unrelated
from tests.whole import WAYS, assert_names_are_text, assert_whole

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


def test_the_page_says_what_would_have_been_said_of_each_control():
    page = parser.fromstring(render(controlled()))
    headings = [element.text_content() for element in page.iter("h2")]
    assert headings == [
        "Shares weights with org/base",
        "What the controls show",
        "All on one axis",
        "The verdicts that the controls would get",
        "Limits",
        "How this page was made",
    ]
    said = [element.text_content() for element in page.xpath("//section[4]//li")]
    assert [one.partition(",")[0] for one in said] == ["free/a", "free/b", "free/gone", "kin/a"]
    captions = [element.text_content() for element in page.iter("figcaption")]
    assert captions[0].endswith("Not on this axis: free/gone (UNVERIFIABLE).")


def test_a_control_that_comes_out_related_is_the_first_thing_that_is_said():
    page = parser.fromstring(render(controlled(Control(compared("free/x", seed=8), True))))
    assert page.xpath("//section[2]//li")[0].text_content().startswith("free/x is named as independent of org/base and")


def test_no_path_of_this_machine_is_on_the_page():
    base, model, free = (f"/srv/secret/{name}" for name in ("base", "model", "free"))
    page = render(controlled(Control(unrelated(free, base=base), True), pair=compared(model, base), base=base))
    assert "secret" not in page
    assert (
        "$ hf-lineage compare /path/to/base /path/to/model --controls /path/to/free --set order-seed=1 --format html"
        in page
    )


def test_a_page_without_any_score_has_no_axis():
    page = parser.fromstring(render(controlled(Control(unread("free/x"), True), pair=unread("org/model"))))
    assert page.xpath("//figure") == []
    assert "UNVERIFIABLE" in page.text_content()


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1280, "dark")])
def test_the_page_asks_for_nothing_and_names_are_text(window, tmp_path, width, scheme):
    assert_names_are_text(window, tmp_path, lambda name: render(hostile(name)), width, scheme)


@pytest.mark.parametrize(("width", "scheme"), WAYS)
def test_the_page_is_whole_and_axe_finds_nothing(window, tmp_path, checker, width, scheme):
    file = tmp_path / "controls.html"
    file.write_text(render(hostile("Meta-Llama/Llama-3.2-90B-Vision-Instruct-abliterated-GPTQ-Int4")), encoding="utf-8")
    assert_whole(window, file, checker, width, scheme)
