import dataclasses

import pytest

from hf_lineage import Options
from hf_lineage.errors import OptionError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"paths": ("nose",)},
            "paths must be all, or one or more of mlp, mlp_gate, value_output, query_key, each once, not nose",
        ),
        ({"alpha": 1.0}, "alpha must lie between 0.000001 and 1, not 1"),
        ({"budget": "quick", "nulls": ("a/b",)}, "--null and --exact need all layers; leave --budget quick out"),
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


def test_they_are_one_flat_record_in_this_order():
    """Whoever names them by position, or stores them, relies on it."""
    positional = [field.name for field in dataclasses.fields(Options) if not field.kw_only]
    assert positional == [
        "recipe", "paths",
        "alpha", "permutations", "seed", "nulls", "budget", "min_share", "accept", "order_seed",
        "recompute", "signatures", "trust",
        "max_memory", "local_hub",
    ]  # fmt: skip
