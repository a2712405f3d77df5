import dataclasses

import pytest

from hf_lineage import Options
from hf_lineage.errors import OptionError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"paths": ("nose",)},
            "paths must be all, usual, or some of mlp, mlp_gate, value_output, query_key, each once, not nose",
        ),
        ({"alpha": 1.0}, "alpha must lie between 0.000001 and 1, not 1"),
        ({"budget": "quick", "nulls": ("a/b",)}, "--null and probes=exact need all layers; leave --budget quick out"),
        ({"permutations": 50}, "alpha 0.01 cannot be reached with 50 permutations; use at least 99"),
        (
            {"permutations": 98, "paths": ("mlp", "value_output")},
            "alpha 0.01 cannot be reached with 98 permutations; use at least 99",
        ),
        ({"paths": ("all", "mlp")}, "each once, not all, mlp"),
    ],
)
def test_what_is_wrong_with_a_part_or_with_two_together_is_refused(options, message):
    with pytest.raises(OptionError) as error:
        Options(**options)
    assert message in str(error.value)


@pytest.mark.parametrize("options", [{"permutations": 99}, {"permutations": 99, "paths": ("mlp", "query_key")}])
def test_the_least_number_of_permutations_that_is_named_is_enough(options):
    assert Options(**options).alpha == 0.01


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"alpha": 0.0}, "alpha must lie between 0.000001 and 1, not 0"),
        ({"alpha": -0.5}, "alpha must lie between 0.000001 and 1, not -0.5"),
        ({"alpha": float("nan")}, "alpha must lie between 0.000001 and 1, not nan"),
        ({"alpha": 5e-324}, "alpha must lie between 0.000001 and 1, not 4.94066e-324"),
        ({"permutations": 0}, "permutations must be between 1 and 1000000, not 0"),
        ({"permutations": 10**9}, "permutations must be between 1 and 1000000, not 1000000000"),
        ({"accept": ("part", "unmeasured")}, "accept must be one of part, basis, weak, listed, not unmeasured"),
        ({"min_share": 1.0}, "min_share must lie between 0 and 1, not at 1"),
        ({"order_seed": 2**64}, "order_seed must lie between 0 and 2^64 - 1, not at 18446744073709551616"),
    ],
)
def test_what_is_out_of_range_is_refused(chosen, message):
    with pytest.raises(OptionError) as error:
        Options(**chosen)
    assert message in str(error.value)


def test_they_are_one_flat_record_that_is_named_by_keywords():
    assert all(field.kw_only for field in dataclasses.fields(Options))
