"""What a verdict does not say, and of which verdicts."""

from hf_lineage.checking.results.claim_result import Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.report.words import limits, wording
from tests.example_evidence import trace
from tests.pages import measured, report, row

ADAPTER = Row(Claim("org/base", None, ("README.md",)), Verdict(Kind.ADAPTER, "it fits", trace=trace()))
UNREAD = Row(Claim("org/base", None, ("README.md",)), Verdict(Kind.UNVERIFIABLE, "no weights"))


def test_limits_are_sentences_that_every_format_can_print():
    assert wording.LIMITS is limits.LIMITS
    assert all(limit.endswith(".") for limit in (*limits.LIMITS, *limits.OF_ADAPTERS))


def test_they_are_those_of_what_was_measured():
    assert limits.describe_limits(report(row(mlp=measured()), UNREAD)) == limits.LIMITS
    assert limits.describe_limits(report(ADAPTER)) == limits.OF_ADAPTERS
    assert limits.describe_limits(report(ADAPTER, row(mlp=measured()))) == (*limits.LIMITS, *limits.OF_ADAPTERS)


def test_where_nothing_was_measured_there_are_none():
    assert limits.describe_limits(report(UNREAD)) == ()
    assert limits.describe_limits(report()) == ()
