"""The evidence of a claim on the page: pictures that say what they mean, once, and tables told apart by name."""

import re

from hf_lineage.checking.results.claim_result import Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.report import FORMATS
from hf_lineage.report.html.evidence import CAPTIONS, UNREAD, evidence
from hf_lineage.report.page.templates import escaped
from tests.example_evidence import trace
from tests.pages import measured, report, row


def shown(*claims):
    return FORMATS["html"](report(*claims), False)


def captions(claim):
    """What stands below the pictures of a claim that is one of several."""
    (section,) = evidence(claim, 1, captions=False)
    return [figure.caption for figure in section.figures if figure.caption]


def test_every_picture_says_what_it_means():
    page = shown(row(mlp=measured()))
    assert all(escaped(caption) in page for caption in CAPTIONS.values())
    assert page.count("<figure") == page.count("<figcaption") == len(CAPTIONS)


def test_where_it_is_said_elsewhere_only_what_concerns_this_claim_is():
    assert captions(row(mlp=measured())) == []
    assert captions(row(layers=32, mlp=measured(analyses=3))) == [UNREAD.strip()]
    two = shown(row(mlp=measured()), row("org/b", mlp=measured()))
    assert "<figcaption" not in two.partition('<ol class="parents">')[2]


def test_a_share_that_is_not_known_has_no_picture():
    assert shown(row(mlp=measured(share=None))).count("<figure") == len(CAPTIONS) - 1


def test_tables_of_several_claims_have_names_of_their_own():
    page = shown(*(row(base, mlp=measured(), query_key=measured()) for base in ("org/a", "org/b")))
    names = [name for name in re.findall('role="region" aria-label="([^"]*)"', page) if name.endswith("by layer")]
    assert names == [f"claim {number}, {path}, layer by layer" for number in (1, 2) for path in ("mlp", "query_key")]


def test_an_adapter_has_its_projections():
    adapter = Row(Claim("org/base", None, ("README.md",)), Verdict(Kind.ADAPTER, "it fits", trace=trace()))
    page = shown(adapter)
    assert "<h3>Adapter</h3>" in page
    assert "claim 1, projections by layer" in page


def test_where_nothing_was_measured_there_is_nothing():
    nothing = Row(Claim("org/base", None, ("README.md",)), Verdict(Kind.UNVERIFIABLE, "no weights"))
    assert list(evidence(nothing, 0, captions=True)) == []
