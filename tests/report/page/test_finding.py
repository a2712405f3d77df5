"""What a page says of any finding, without what is for those who run the command."""

import pytest

from hf_lineage.report.findings.finding import Bar, Bars
from hf_lineage.report.page.finding import HINTS, draw, without_hint


@pytest.mark.parametrize("hint", HINTS)
def test_what_only_the_command_line_can_do_is_left_out_at_the_end_alone(hint):
    assert without_hint(f"it was read{hint}") == "it was read"
    assert without_hint(f"it was read{hint}, or not") == f"it was read{hint}, or not"


def test_a_bar_has_its_interval_and_nothing_else_where_that_is_too_wide():
    clear, unclear = (draw(Bars((Bar("<b>", 0.5, -3.0, 4.0, told),))) for told in (True, False))
    assert 'class="share"' in clear
    assert 'class="share"' not in unclear
    assert "M0 8H200" in unclear
    assert "&lt;b&gt;" in unclear
