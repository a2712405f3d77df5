"""The table of storage formats has every format, and says of each what is measured."""

import pytest

from tools import stored
from tools.docs import BLOCKS, block

EVERY = 23
"""One row in so many is measured here. The tests of each format measure all of its forms against a bound."""


@pytest.mark.long
def test_the_table_has_every_format_and_what_is_measured_of_a_few_is_what_it_says():
    file, _ = BLOCKS["formats"]
    lines = block(file.read_text(encoding="utf-8"), "formats")[2].strip().splitlines()[2:]
    shown = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    cases = list(stored.cases())
    assert [(row[0], *row[-2:]) for row in shown] == [(case.name, case.writer, case.oracle) for case in cases]
    assert [case.row() for case in cases[::EVERY]] == shown[::EVERY], "run `make docs`"
