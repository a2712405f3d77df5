from hf_lineage.evidence.criteria import ACCEPTABLE
from hf_lineage.evidence.verdict import Code


def test_what_can_be_accepted_are_codes_of_related_that_verify_nothing():
    assert {Code(name).word for name in ACCEPTABLE} == {"RELATED"}
