"""The page beside controls: whole on a phone in a real browser, nothing loaded, and no name leaves its place."""

import pytest
from lxml import html as parser

from hf_lineage.checking.controls import Control
from hf_lineage.report.controls.page import render
from tests.report.controlled import compared, controlled, hostile, unread, unrelated
from tests.whole import WAYS, assert_names_are_text, assert_whole


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
