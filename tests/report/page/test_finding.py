"""What a page says of any finding, without what is for those who run the command."""

import pytest

from hf_lineage.report.findings.finding import Bar, Bars, Finding, Table
from hf_lineage.report.page.finding import HINTS, draw, is_shown_apart, show, without_hint


@pytest.mark.parametrize("hint", HINTS)
def test_what_only_the_command_line_can_do_is_left_out_at_the_end_alone(hint):
    assert without_hint(f"it was read{hint}") == "it was read"
    assert without_hint(f"it was read{hint}, or not") == f"it was read{hint}, or not"


def test_a_bar_has_its_interval_and_nothing_else_where_that_is_too_wide():
    clear, unclear = (draw(Bar("<b>", 0.5, -3.0, 4.0, told)) for told in (True, False))
    assert 'class="share"' in clear
    assert 'class="share"' not in unclear
    assert "M0 7H200" in unclear


def test_any_finding_has_its_tables_its_bars_and_its_sentences():
    tables = (Table("few", ("A", "B"), (("<x>", "1"),)), Table("many", ("A",), (("y",),) * 12))
    picture = Bars((Bar("<b>", 0.5, 0.4, 0.6),), "what <it> shows")
    finding = Finding("Toy", sentences=(f"one thing{HINTS[0]}",), tables=tables, picture=picture)
    page = show(finding, "claim 1, ")
    assert 'aria-label="claim 1, few"' in page
    assert page.count("<details>") == 1
    assert "<dt>&lt;b&gt;</dt>" in page
    assert "what &lt;it&gt; shows</figcaption>" in page
    assert '<p class="exact">One thing.</p>' in page
    assert '<details open="">' in show(finding, explain=True)
    assert is_shown_apart(finding)
    assert not is_shown_apart(Finding("Toy", sentences=("one thing",)))
