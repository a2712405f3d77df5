"""Several claims at a glance: a line and a bar for each parent."""

import re

from hf_lineage.checking.results.claim_result import Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.report import FORMATS
from hf_lineage.report.html.overview import overview_line
from tests.example_evidence import trace
from tests.pages import measured, report, row

UNREAD = Row(Claim("org/lost", None, ("README.md",)), Verdict(Kind.UNVERIFIABLE, "the Hub refuses it. " * 20))


def page(*rows):
    return FORMATS["html"](report(*rows), False)


def lines(*rows):
    (listed,) = re.findall('<ol class="parents">(.*?)</ol>', page(*rows), re.DOTALL)
    return re.findall("<li>(.*?)</li>", listed, re.DOTALL)


def test_verdicts_are_counted_and_every_claim_is_a_line():
    rows = (row(mlp=measured()), UNREAD, row("org/b", mlp=measured()))
    assert "<h2>3 claims: 2 RELATED, 1 UNVERIFIABLE</h2>" in page(*rows)
    assert [re.findall('href="([^"]*)"', line) for line in lines(*rows)] == [["#claim-0"], ["#claim-1"], ["#claim-2"]]


def test_what_was_measured_is_a_bar_and_a_scale():
    (line, _) = lines(row(mlp=measured(share=0.3)), UNREAD)
    assert 'aria-label="30% inherited, between 28% and 32%"' in line
    assert "this pair 0.970" in line
    assert "Score 0.970, p = 0.001; by chance -0.02" in line


def test_what_was_not_measured_has_its_reason_cut_short_and_no_bar():
    line, _ = lines(UNREAD, UNREAD)
    assert '<svg class="small"' not in line
    assert "The Hub refuses it." in line
    assert len(line) < 600


def test_an_adapter_has_its_p_value():
    adapter = Row(Claim("org/base", None, ("README.md",)), Verdict(Kind.ADAPTER, "it fits", trace=trace()))
    assert "<p>p = " in lines(adapter, adapter)[0]


def test_bars_are_explained_where_there_are_any():
    assert "The bar is the share" in page(row(mlp=measured()), UNREAD)
    assert "The bar is the share" not in page(UNREAD, UNREAD)


def test_a_claim_at_a_glance_is_a_value():
    line = overview_line(report(row(mlp=measured())), row(mlp=measured()))
    assert next(words for _, words in line.bars) == "97% inherited"
    assert line.about == "All 6 layers come from it."
