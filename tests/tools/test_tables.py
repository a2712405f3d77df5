"""Tables of our own words stay tables, whatever a cell holds."""

from tools.tables import table


def test_a_cell_keeps_its_markdown_and_stays_one_cell_on_one_line():
    assert table(("A", "B"), [("`x`", "s = |tr M|"), ("two\nlines", "")]) == (
        "| A | B |\n| --- | --- |\n| `x` | s = \\|tr M\\| |\n| two lines |  |"
    )
