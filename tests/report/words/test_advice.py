"""What a reader may do next: something for every verdict, in sentences that name no option of the command.

What a verdict does not say, and of which verdicts.
"""

import pytest

from hf_lineage.checking.results.claim_result import Row
from hf_lineage.claims.sources import Claim
from hf_lineage.evidence.verdict import Kind, Verdict
from hf_lineage.report.words import advice
from tests.example_evidence import trace
from tests.pages import measured, report, row

EVERYTHING = [*advice.NEXT.values(), advice.UNDECLARED]


def test_there_is_some_for_every_kind_of_verdict():
    assert advice.NEXT.keys() == set(Kind)
    assert all(EVERYTHING)


@pytest.mark.parametrize("sentences", EVERYTHING)
def test_it_is_for_people_who_run_no_commands(sentences):
    for sentence in sentences:
        assert sentence.endswith(".")
        assert "--" not in sentence
        assert "`" not in sentence


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind.word != "RELATED" and kind is not Kind.UNRELATED])
def test_what_is_undecided_is_left_as_the_publishers_word(kind):
    assert "publisher's statement" in " ".join(advice.NEXT[kind])


ADAPTER = Row(Claim("org/base", None, ("README.md",)), Verdict(Kind.ADAPTER, "it fits", trace=trace()))
UNREAD = Row(Claim("org/base", None, ("README.md",)), Verdict(Kind.UNVERIFIABLE, "no weights"))


def test_limits_are_sentences_that_every_format_can_print():
    assert all(limit.endswith(".") for limit in (*advice.LIMITS, *advice.OF_ADAPTERS))


def test_they_are_those_of_what_was_measured():
    assert advice.describe_limits(report(row(mlp=measured()), UNREAD)) == advice.LIMITS
    assert advice.describe_limits(report(ADAPTER)) == advice.OF_ADAPTERS
    assert advice.describe_limits(report(ADAPTER, row(mlp=measured()))) == (*advice.LIMITS, *advice.OF_ADAPTERS)


def test_where_nothing_was_measured_there_are_none():
    assert advice.describe_limits(report(UNREAD)) == ()
    assert advice.describe_limits(report()) == ()
