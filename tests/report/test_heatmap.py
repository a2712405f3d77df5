"""The heat map: every cell in its colour, pairs outlined, text that can be read on every colour."""

import re
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.report.heatmap import BRIGHT, LEVELS, VIRIDIS, colour, heat_map
from tests.pages import measured


def cells(picture):
    """The fill of every cell, read back from the shapes."""
    colours = {}
    for shape, fill in re.findall(r'<path d="([^"]*)" fill="([^"]*)">', picture):
        for column, row, length in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", shape):
            colours |= {(int(row), int(column) + step): fill for step in range(int(length))}
    return colours


def luminance(fill):
    channels = [value / 255 for value in bytes.fromhex(fill[1:])]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("shape", [(1, 1), (6, 6), (4, 32), (32, 4), (128, 128)])
def test_every_cell_is_drawn_once_in_the_colour_of_its_cosine(shape):
    evidence = measured(*shape)
    drawn = cells(heat_map(evidence, "a"))
    assert drawn == {place: colour(float(cosine)) for place, cosine in np.ndenumerate(evidence.comparison.similarity)}


def test_the_scale_is_the_published_one():
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    scale = colormaps["viridis"]
    assert [to_hex(scale(step / (len(VIRIDIS) - 1))) for step in range(len(VIRIDIS))] == list(VIRIDIS)


def test_what_is_written_on_a_cell_can_be_read():
    for level in range(LEVELS):
        cosine = level / (LEVELS - 1)
        light = luminance(colour(cosine))
        contrast = (light + 0.05) / 0.05 if cosine >= BRIGHT else 1.05 / (light + 0.05)
        assert contrast >= 4.5, (cosine, contrast)


def test_layers_are_named_by_their_numbers_and_pairs_say_what_they_are():
    evidence = replace(measured(4, 32), layers=((0, 16, 8, 24), tuple(range(32))))
    drawn = heat_map(evidence, "a")
    assert "layer 16 of the base, layer 1 of the model: 0.970" in drawn
    assert drawn.count('class="pair ') == 4
    assert "4 layers of the base against 32 of the model; the 4 pairs that are outlined" in drawn


def test_a_laundered_order_is_outlined_where_the_layers_went():
    evidence = measured()
    turned = np.roll(evidence.comparison.similarity, 2, axis=1)
    pairs = (np.arange(6), (np.arange(6) + 2) % 6)
    drawn = heat_map(replace(evidence, comparison=replace(evidence.comparison, similarity=turned, pairs=pairs)), "a")
    assert "layer 5 of the base, layer 1 of the model: 0.970" in drawn


@pytest.mark.parametrize(("layers", "numbers"), [(12, 144), (13, 0)])
def test_numbers_are_written_where_there_is_room(layers, numbers):
    assert len(re.findall(r'<text [^>]*class="(?:light|dark)"', heat_map(measured(layers, layers), "a"))) == numbers
