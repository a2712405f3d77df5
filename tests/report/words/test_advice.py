"""What a reader may do next: something for every verdict, in sentences that name no option of the command."""

import pytest

from hf_lineage.evidence.verdict import Code
from hf_lineage.report.words import advice

EVERYTHING = [*advice.NEXT.values(), advice.UNDECLARED]


def test_there_is_some_for_every_kind_of_verdict():
    assert advice.NEXT.keys() == set(Code)
    assert all(EVERYTHING)


@pytest.mark.parametrize("sentences", EVERYTHING)
def test_it_is_for_people_who_run_no_commands(sentences):
    for sentence in sentences:
        assert sentence.endswith(".")
        assert "--" not in sentence
        assert "`" not in sentence
