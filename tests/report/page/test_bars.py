"""Small pictures beside a number: as long as what they show, and told to whoever does not see them."""

import re
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.report.page.bars import THIN, WIDTH, score_bar, share_bar
from tests.pages import measured

NULL = measured().permutation


def widths(picture, kind):
    return [float(width) for width in re.findall(rf'width="([\d.]+)" height="\d+" class="{kind}"', picture)]


@pytest.mark.parametrize("share", [0.0, 0.27, 1.0])
def test_a_share_is_as_long_as_its_part_of_the_whole(share):
    picture = share_bar(share, (share, share))
    assert widths(picture, "track") == [WIDTH]
    assert widths(picture, "share") == [pytest.approx(WIDTH * share)]
    assert f'aria-label="{share:.0%} inherited"' in picture


def test_an_interval_is_drawn_and_told_where_there_is_one():
    picture = share_bar(0.5, (0.4, 0.6))
    assert f'd="M{0.4 * WIDTH:g} 7H{0.6 * WIDTH:g}"' in picture
    assert "between 40% and 60%" in picture


def test_the_range_of_independent_models_is_where_they_score():
    null = replace(NULL, observed=0.8, scores=np.linspace(0.2, 0.4, 999))
    low, high = null.range
    assert f'<rect x="{low * WIDTH:.6g}"' in score_bar(null)
    assert widths(score_bar(null), "chance") == [pytest.approx((high - low) * WIDTH, rel=1e-4)]
    assert f"independent models score {low:.3f} to {high:.3f}, this pair 0.800" in score_bar(null)


@pytest.mark.parametrize("score", [-0.3, 0.0, 1.0])
def test_whatever_the_score_everything_stays_in_the_picture(score):
    picture = score_bar(replace(NULL, observed=score, scores=np.full(9, score)))
    (x,) = map(float, re.findall(r'<rect x="([^"]*)" y="1"', picture))
    (at,) = map(float, re.findall(r'd="M([\d.]+) 14V4', picture))
    assert widths(picture, "chance") == [THIN]
    assert 0 <= x <= WIDTH - THIN
    assert 5 <= at <= WIDTH - 5
