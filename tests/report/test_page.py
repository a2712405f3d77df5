"""Whatever is not markup already is text in a page: it leaves neither its element nor its attribute, and is escaped."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from jinja2 import UndefinedError
from lxml import etree, html
from markupsafe import Markup

from hf_lineage.errors import printable
from hf_lineage.report import page as charts
from hf_lineage.report.family import picture
from hf_lineage.report.page import BAR, BOTTOM, LEFT, RIGHT, TOP, escape_markup, histogram, inheritance, score_bar
from tests.example_evidence import null
from tests.pages import measured
from tests.properties import ANY_TEXT, cases


def whole(text):
    return printable(text, 10 * len(text) + 10)


def widths(picture, kind):
    return [float(width) for width in re.findall(rf'width="([\d.]+)" height="\d+" class="{kind}"', picture)]


def mark(picture):
    return float(re.search(rf'd="M(\S+) {BOTTOM}V{TOP}" class="mark"', picture)[1])


def part(template, **values):
    """What a template that uses the parts of all pages makes of values."""
    source = f'{{% import "parts.html.j2" as parts %}}{template}'
    return charts._environment().from_string(source).render(values).strip()


@cases(200)
@given(ANY_TEXT, ANY_TEXT)
def test_any_text_is_the_text_and_the_attribute_that_it_was_given_as(content, title):
    element = html.fragment_fromstring(
        part('<p title="{{ title }}" class="x">{{ content }}{{ "<>" }}</p>', content=content, title=title)
    )
    assert (element.text_content(), len(element)) == (f"{whole(content)}<>".replace("\r", "\n"), 0)
    assert dict(element.attrib) == {"title": whole(title), "class": "x"}
    texts = [one.text or "" for one in etree.fromstring(picture([], title, f"{title}.")) if one.get("id")]
    assert texts == [whole(title), f"{whole(title)}."]
    assert etree.fromstring(charts.interval_bar(title, None, (0.0, 0.0))).get("aria-label") == whole(title)


@cases(100)
@given(ANY_TEXT)
def test_what_is_escaped_once_is_not_escaped_again_and_a_name_is_set_apart_and_cut(text):
    once = escape_markup(text)
    assert (escape_markup(once), type(escape_markup(once))) == (once, Markup)
    assert part("{{ once }}|", once=once) == f"{once}|".strip()
    element = html.fragment_fromstring(charts.identifier(text * 40))
    assert (element.tag, element.get("class")) == ("bdi", "id")
    assert element.text_content() == printable(text * 40, charts.LONGEST)
    for template in ("{{ missing }}", "{{ given.missing }}"):
        with pytest.raises(UndefinedError):
            part(template, given=1)


def bars(picture, kind="bar"):
    matches = re.findall(rf'<rect x="([^"]*)" y="[^"]*" width="[^"]*" height="([^"]*)" class="{kind}">', picture)
    return [(float(x), float(height)) for x, height in matches]


def test_bars_are_as_high_as_frequent_and_a_score_far_off_is_behind_a_break():
    drawn = bars(histogram(null(0.5, [0.1] * 30 + [0.4] * 10 + [0.9] * 20), "a"))
    heights = np.array([height for _, height in drawn])
    assert heights / heights.max() == pytest.approx([1, 1 / 3, 2 / 3], abs=1e-4)
    picture = histogram(null(0.98, np.linspace(-0.01, 0.01, 999)), "a")
    assert max(x for x, _ in bars(picture)) < mark(picture) - 50
    assert ("gap" in picture, "this pair: 0.980" in picture) == (True, True)


@pytest.mark.parametrize("observed", [-0.9, 0.0, 0.0205, 1.0])
@pytest.mark.parametrize("scores", [[0.0] * 99, [0.01, 0.02], np.linspace(-0.05, 0.05, 999)])
def test_nothing_is_drawn_outside_the_frame(observed, scores):
    picture = histogram(null(observed, scores), "a")
    assert LEFT - 1 <= mark(picture) <= RIGHT + 1
    assert all(LEFT - 1 <= x <= RIGHT + 1 and 0 < height <= BOTTOM - TOP for x, height in bars(picture))


def test_a_layer_has_a_column_as_high_as_what_it_inherits_or_leaves_its_place_empty():
    shares, kind = np.array([1.0, 0.5, 0.0]), "share(?: pale)?"
    evidence = measured(3, 3)
    picture = inheritance(replace(evidence, inherited=replace(evidence.inherited, by_layer=shares)), 3, "a")
    heights = np.array([height for _, height in bars(picture, kind)])
    assert (heights - 1) / (BOTTOM - TOP - 2) == pytest.approx(shares, abs=1e-3)
    assert re.findall('class="(share[^"]*)"', picture) == ["share", "share pale", "share pale"]
    assert "from 0% to 100%; 1 of them come from the base" in picture
    evidence = measured(2, 2, analyses=3, layers=((1, 31), (1, 31)))
    (first, _), (last, _) = bars(inheritance(evidence, 32, "a"), kind)
    assert LEFT < first < LEFT + 2 * (RIGHT - LEFT) / 32
    assert RIGHT - (RIGHT - LEFT) / 32 < last < RIGHT


@pytest.mark.parametrize("share", [0.0, 0.27, 1.0])
def test_a_share_is_as_long_as_its_part_of_the_whole_and_has_its_interval(share):
    picture = charts.share_bar(share, (share, share))
    assert widths(picture, "track") == [BAR]
    assert widths(picture, "share") == [pytest.approx(BAR * share)]
    assert f'aria-label="{share:.0%} inherited"' in picture
    picture = charts.share_bar(0.5, (0.4, 0.6))
    assert f'd="M{0.4 * BAR:g} 7H{0.6 * BAR:g}"' in picture
    assert "between 40% and 60%" in picture


def test_the_range_of_independent_models_is_where_they_score_and_within_the_picture():
    wide = null(0.8, np.linspace(0.2, 0.4, 999))
    low, high = wide.range
    assert f'<rect x="{low * BAR:.6g}"' in score_bar(wide)
    assert widths(score_bar(wide), "chance") == [pytest.approx((high - low) * BAR, rel=1e-4)]
    assert f"independent models score {low:.3f} to {high:.3f}, this pair 0.800" in score_bar(wide)
    for score in (-0.3, 0.0, 1.0):
        picture = score_bar(null(score, np.full(9, score)))
        (x,) = map(float, re.findall(r'<rect x="([^"]*)" y="1"', picture))
        (at,) = map(float, re.findall(r'd="M([\d.]+) 14V4', picture))
        assert widths(picture, "chance") == [charts.THIN]
        assert (0 <= x <= BAR - charts.THIN, 5 <= at <= BAR - 5) == (True, True)


@pytest.mark.parametrize(("layers", "numbers"), [(12, 144), (13, 0)])
def test_numbers_are_written_where_there_is_room_and_a_laundered_order_is_outlined(layers, numbers):
    assert (
        len(re.findall(r'<text [^>]*class="(?:light|dark)"', charts.heat_map(measured(layers, layers), "a"))) == numbers
    )
    evidence = measured()
    turned = np.roll(evidence.comparison.similarity, 2, axis=1)
    pairs = (np.arange(6), (np.arange(6) + 2) % 6)
    drawn = charts.heat_map(
        replace(evidence, comparison=replace(evidence.comparison, similarity=turned, pairs=pairs)), "a"
    )
    assert "layer 5 of the base, layer 1 of the model: 0.970" in drawn


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-0.013, 0.021), (0, 1e-9), (-40, 3e5), (0.97, 0.9701)])
def test_steps_are_even_lie_within_and_are_neither_few_nor_many(low, high):
    steps = charts.round_steps(low, high, 4)
    assert 1 < len(steps) <= 5
    assert all(low <= step <= high for step in steps)
    widths = [after - before for before, after in itertools.pairwise(steps)]
    assert widths == pytest.approx([widths[0]] * len(widths))
