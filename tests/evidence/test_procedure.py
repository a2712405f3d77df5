from hf_lineage.evidence.criteria import ACCEPTABLE
from hf_lineage.evidence.verdict import Code


def test_what_can_be_accepted_are_kinds_of_related_that_verify_nothing():
    kinds = {kind.identifier: kind for kind in Code}
    assert {kinds[name].word for name in ACCEPTABLE} == {"RELATED"}
    assert "related" not in ACCEPTABLE
