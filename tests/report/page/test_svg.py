"""Shapes of a picture: written as SVG wants them, any text escaped, and the steps of an axis round numbers."""

import itertools

import pytest
from hypothesis import given
from lxml import etree

from hf_lineage.errors import printable
from hf_lineage.report.page.svg import (
    element,
    every,
    group,
    linear,
    mark,
    path,
    picture,
    rect,
    round_steps,
    shortened,
    signed,
    text,
)
from tests.properties import ANY_TEXT, cases


@cases(100)
@given(ANY_TEXT, ANY_TEXT)
def test_any_text_is_the_text_and_the_attribute_that_it_was_given_as(content, label):
    whole = [printable(one, 10 * len(one) + 10) for one in (content, label)]
    shown = etree.fromstring(element("text", content, aria_label=label))
    assert ((shown.text or ""), len(shown)) == (whole[0], 0)
    assert dict(shown.attrib) == {"aria-label": whole[1]}


@pytest.mark.parametrize(
    ("shape", "written"),
    [
        (rect(1 / 3, 0, 2, 1), '<rect x="0.333333" y="0" width="2" height="1"></rect>'),
        (path("M0 0", "line", fill="none"), '<path d="M0 0" fill="none" class="line"></path>'),
        (text("<", 1, 2, anchor="end"), '<text x="1" y="2" text-anchor="end" class="tick">&lt;</text>'),
        (text("a", 1, 2, ""), '<text x="1" y="2">a</text>'),
        (group(rect(0, 0, 1, 1), kind="cells"), f'<g class="cells">{rect(0, 0, 1, 1)}</g>'),
        (mark("circle", 1, 2, 3, "dot"), '<circle cx="1" cy="2" r="3" class="dot"></circle>'),
        (mark("square", 1, 2, 3, "dot"), '<rect x="-2" y="-1" width="6" height="6" class="dot"></rect>'),
        (mark("diamond", 1, 2, 3, "dot"), '<path d="M-2 2l3 -3l3 3l-3 3z" class="dot"></path>'),
    ],
)
def test_a_shape_is_written_as(shape, written):
    assert shape == written


def test_a_picture_is_told_in_words():
    root = etree.fromstring(picture("chart", (10, 20.5), [], "<what>", "x", "more"))
    assert (root.get("role"), root.get("viewBox"), root.get("class")) == ("img", "0 0 10 20.5", "chart")
    told = {one.get("id"): one.text for one in root}
    assert (told[root.get("aria-labelledby")], told[root.get("aria-describedby")]) == ("<what>", "more")
    plain = etree.fromstring(picture("small", (1, 1), [], "a bar"))
    assert (plain.get("aria-label"), len(plain), plain.get("aria-describedby")) == ("a bar", 0, None)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-0.013, 0.021), (0, 1e-9), (-40, 3e5), (0.97, 0.9701)])
def test_steps_are_even_lie_within_and_are_neither_few_nor_many(low, high):
    steps = round_steps(low, high, 4)
    assert 1 < len(steps) <= 5
    assert all(low <= step <= high for step in steps)
    widths = [after - before for before, after in itertools.pairwise(steps)]
    assert widths == pytest.approx([widths[0]] * len(widths))


def test_a_scale_leads_from_values_to_pixels():
    assert [linear(0, 2, 10, 20)(value) for value in (0, 1, 2)] == [10, 15, 20]
    assert linear(1, 1, 10, 20)(1) == 10


def test_numbers_of_layers_are_left_out_by_halves():
    assert [every(apart) for apart in (0.1, 1, 1.01, 4, 5)] == [1, 1, 2, 4, 8]


def test_words_are_cut_and_minus_signs_are_real():
    assert (shortened("org/models", 9), shortened("org/model", 9)) == ("org/mode…", "org/model")
    assert shortened("a\nb", 9) == "a\\nb"
    assert signed("-1e-05") == "−1e−05"
