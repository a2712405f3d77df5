"""A block is written between its markers, and nothing else of the page changes."""

import pytest

from tools import docs

PAGE = "Before.\n\n<!-- begin figures -->\nold\n<!-- end figures -->\n\nAfter.\n"


@pytest.fixture
def page(tmp_path, monkeypatch):
    file = tmp_path / "page.md"
    file.write_text(PAGE, encoding="utf-8")
    monkeypatch.setitem(docs.BLOCKS, "figures", (file, lambda: "| 1 | 2 |"))
    return file


def test_a_block_is_written_with_an_empty_line_on_either_side(page):
    docs.write("figures")
    assert page.read_text(encoding="utf-8") == (
        "Before.\n\n<!-- begin figures -->\n\n| 1 | 2 |\n\n<!-- end figures -->\n\nAfter.\n"
    )


def test_a_second_run_changes_nothing(page):
    docs.write("figures")
    once = page.read_bytes()
    docs.write("figures")
    assert page.read_bytes() == once


def test_a_block_without_its_markers_is_an_error(page):
    page.write_text("Before.\n", encoding="utf-8")
    with pytest.raises(ValueError, match="there is no block figures: put its two markers where it belongs"):
        docs.write("figures")
    assert page.read_text(encoding="utf-8") == "Before.\n"
