import pytest

from hf_lineage.errors import OptionError
from hf_lineage.evidence.procedure import ACCEPTABLE, Procedure
from hf_lineage.evidence.verdict import Kind


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"alpha": 0.0}, "alpha must lie between 0.000001 and 1, not 0"),
        ({"alpha": 1.0}, "alpha must lie between 0.000001 and 1, not 1"),
        ({"alpha": -0.5}, "alpha must lie between 0.000001 and 1, not -0.5"),
        ({"alpha": float("nan")}, "alpha must lie between 0.000001 and 1, not nan"),
        ({"alpha": 5e-324}, "alpha must lie between 0.000001 and 1, not 4.94066e-324"),
        ({"permutations": 0}, "permutations must be between 1 and 1000000, not 0"),
        ({"permutations": 10**9}, "permutations must be between 1 and 1000000, not 1000000000"),
        ({"accept": ("part", "unmeasured")}, "accept must be one of part, basis, weak, not unmeasured"),
        ({"min_share": 1.0}, "min_share must lie between 0 and 1, not at 1"),
        ({"order_seed": 2**64}, "order_seed must lie between 0 and 2^64 - 1, not at 18446744073709551616"),
    ],
)
def test_what_is_out_of_range_is_refused(chosen, message):
    with pytest.raises(OptionError) as error:
        Procedure(**chosen)
    assert message in str(error.value)


def test_what_can_be_accepted_are_kinds_of_related_that_verify_nothing():
    kinds = {kind.identifier: kind for kind in Kind}
    assert {kinds[name].word for name in ACCEPTABLE} == {"RELATED"}
    assert "related" not in ACCEPTABLE
