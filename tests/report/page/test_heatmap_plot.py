"""The heat map by matplotlib: the same file every time, a map for each claim and path, refused in time if at all."""

import importlib.util
import io
import os
from xml.etree import ElementTree

import pytest
from PIL import Image, ImageColor

from hf_lineage.report.page.heatmap import VIRIDIS
from hf_lineage.report.page.heatmap_plot import MOST, PANEL, save
from tests.invoking import environment, lineage, process
from tests.pages import HOSTILE, hostile_report, measured, report, row

ONE = report(row(mlp=measured()))


def drawn(drawn_report, file):
    save(drawn_report, file)
    return file.read_bytes()


def picture(drawn_report, file):
    return Image.open(io.BytesIO(drawn(drawn_report, file))).convert("RGB")


@pytest.mark.parametrize("suffix", ["png", "svg", "SVG"])
def test_the_same_report_is_the_same_file(tmp_path, suffix):
    first, second = (drawn(ONE, tmp_path / f"{number}.{suffix}") for number in range(2))
    assert first == second
    assert b"matplotlib.org" not in first
    assert b"dc:date" not in first


def test_cells_have_their_colours(tmp_path):
    seen = picture(report(row(mlp=measured(score=1.0))), tmp_path / "one.png").getcolors(2**24)
    bright, dark = (sum(count for count, colour in seen if alike(colour, VIRIDIS[end])) for end in (-1, 0))
    assert 0 < bright < dark


def alike(one, other):
    """Whether two colours are the same up to rounding."""
    return max(abs(a - b) for a, b in zip(one, ImageColor.getrgb(other), strict=True)) <= 1


def test_an_svg_is_one_that_parses_and_needs_nothing_else(tmp_path):
    content = drawn(ONE, tmp_path / "one.svg")
    root = ElementTree.fromstring(content)
    links = [value for element in root.iter() for key, value in element.attrib.items() if key.endswith("href")]
    assert links
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)


@pytest.mark.parametrize(("maps", "across", "down"), [(1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 3, 2)])
@pytest.mark.few(2)
def test_every_claim_and_path_is_a_map_of_its_own(tmp_path, maps, across, down):
    drawn_report = report(*(row(mlp=measured(seed=number)) for number in range(maps)))
    width, height = picture(drawn_report, tmp_path / "grid.png").size
    assert (width, height) == pytest.approx((120 * PANEL[0] * across, 120 * PANEL[1] * down), abs=1)


@pytest.mark.long
def test_a_picture_has_an_end_however_many_claims_there_are(tmp_path):
    evidence = measured(1, 1)
    drawn_report = report(*(row(mlp=evidence) for _ in range(MOST + 4)))
    assert picture(drawn_report, tmp_path / "many.png").size[1] < 2**14


@pytest.mark.parametrize("shape", [(1, 1), (4, 32), (32, 4), (128, 128)])
def test_any_shape_is_drawn(tmp_path, shape):
    assert picture(report(row(mlp=measured(*shape))), tmp_path / "map.png").size[0] == 120 * PANEL[0]


def test_where_nothing_was_measured_the_picture_says_why(tmp_path):
    assert len(picture(report(), tmp_path / "none.png").getcolors(2**24)) > 1


def test_hostile_names_are_letters(tmp_path, recwarn):
    content = drawn(hostile_report(HOSTILE), tmp_path / "hostile.svg")
    ElementTree.fromstring(content)
    assert b"<script" not in content
    assert not list(recwarn)


@pytest.mark.parametrize("suffix", ["png", "svg"])
@pytest.mark.parametrize("epoch", ["9" * 20, "noon", "-1", ""])
@pytest.mark.few(2)
def test_no_time_is_in_a_picture_so_none_can_be_wrong(tmp_path, monkeypatch, suffix, epoch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    assert drawn(hostile_report(HOSTILE), tmp_path / f"map.{suffix}")
    assert os.environ["SOURCE_DATE_EPOCH"] == epoch


def test_the_command_line_draws_beside_the_report(hub):
    file = hub / "map.svg"
    outcome = lineage("check", "fern/child", "--local-hub", hub, "--plot", file)
    assert (outcome.code, "RELATED" in outcome.out) == (0, True)
    assert b"<svg" in file.read_bytes()
    again = lineage("compare", hub / "acme/base", hub / "fern/child", "--plot", hub / "map.png")
    assert again.code == 0
    assert (hub / "map.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["map.pdf", "map", "map.svg.gz", "png"])
def test_another_suffix_is_refused_before_anything_is_read(name, tmp_path):
    outcome = lineage("check", "/no/such/model", "--plot", tmp_path / name)
    assert outcome.error == f"--plot {tmp_path / name} must end in .png or .svg"


def test_a_folder_that_is_not_there_is_refused_before_anything_is_read():
    assert "there is no folder '/no/such'" in lineage("check", "/no/such/model", "--plot", "/no/such/map.png").error


def test_without_matplotlib_the_extra_is_named_before_anything_is_read(tmp_path, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "matplotlib" else find_spec(name))
    assert lineage("check", "/no/such/model", "--plot", tmp_path / "map.png").error == (
        "--plot needs matplotlib, which is not installed; pip install 'hf-lineage[plot] @ "
        "git+https://github.com/hf-lineage/hf-lineage'"
    )


def test_no_window_is_ever_opened_whatever_backend_is_set(hub):
    env = environment(MPLBACKEND="TkAgg", DISPLAY="")
    assert process("compare", hub / "acme/base", hub / "fern/child", "--plot", hub / "map.png", env=env).err == ""
    assert (hub / "map.png").exists()
