"""What a verdict depends on by default, and how many permutations several analyses take."""

import pytest

from hf_lineage.evidence.criteria import ACCEPTABLE, Criteria
from hf_lineage.evidence.verdict import Code
from hf_lineage.source.options import Options


def test_they_are_the_defaults_of_a_check_and_accept_codes_that_verify_nothing():
    options, criteria = Options(), Criteria()
    for name in ("alpha", "min_share", "accept", "permutations"):
        assert getattr(options, name) == getattr(criteria, name), name
    assert {Code(name).word for name in ACCEPTABLE} == {"RELATED"}


@pytest.mark.parametrize("part", [1.0, 0.5])
@pytest.mark.parametrize(("permutations", "analyses"), [(999, 1), (999, 3), (99, 2), (19, 40)])
def test_each_of_several_tests_can_reach_its_part_of_alpha(permutations, analyses, part):
    criteria = Criteria(permutations=permutations, analyses=analyses)
    drawn = criteria.permutations_at_first(part)
    assert drawn >= permutations
    assert analyses / (drawn + 1) < part * criteria.alpha
