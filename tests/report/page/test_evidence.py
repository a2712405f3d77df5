"""The evidence of a claim on the page: pictures that say what they mean, once, and tables told apart by name."""

import re

from hf_lineage.checking.results.rows import Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.report.page.evidence import CAPTIONS, UNREAD, View, evidence
from hf_lineage.report.page.markup import escaped, joined
from tests.example_evidence import trace
from tests.pages import measured, report, row

PLAIN = View(0, explain=False, captions=True)


def shown(claim, view=PLAIN):
    return joined(*evidence(report(claim), claim, view))


def test_every_picture_says_what_it_means():
    page = shown(row(mlp=measured()))
    assert all(escaped(caption) in page for caption in CAPTIONS.values())
    assert page.count("<figure") == page.count("<figcaption") == len(CAPTIONS)


def test_where_it_is_said_elsewhere_only_what_concerns_this_claim_is():
    view = View(1, explain=False, captions=False)
    assert "<figcaption" not in shown(row(mlp=measured()), view)
    early = shown(row(layers=32, mlp=measured(analyses=3)), view)
    assert re.findall("<figcaption>(.*?)</figcaption>", early) == [UNREAD.strip()]


def test_a_share_that_is_not_known_has_no_picture():
    assert shown(row(mlp=measured(share=None))).count("<figure") == len(CAPTIONS) - 1


def test_tables_of_several_claims_have_names_of_their_own():
    pages = [shown(row(mlp=measured(), query_key=measured()), View(number, True, False)) for number in (0, 1)]
    names = re.findall('role="region" aria-label="([^"]*)"', "".join(pages))
    assert names == [f"claim {number}, {path}, layer by layer" for number in (1, 2) for path in ("mlp", "query_key")]


def test_an_adapter_has_its_projections():
    adapter = Row(Claim("org/base", None, ("README.md",)), Verdict(Kind.ADAPTER, "it fits", trace=trace()))
    page = shown(adapter)
    assert "<h3>Adapter</h3>" in page
    assert "claim 1, projections by layer" in page


def test_where_nothing_was_measured_there_is_nothing():
    assert shown(Row(Claim("org/base", None, ("README.md",)), Verdict(Kind.UNVERIFIABLE, "no weights"))) == ""
