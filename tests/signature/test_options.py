import pytest

from hf_lineage.errors import OptionError
from hf_lineage.signature.options import Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paths": ()}, "paths must be one or more of mlp, mlp_gate, value_output, query_key, each once, not "),
        ({"paths": ("mlp", "mlp")}, "each once, not mlp, mlp"),
        ({"paths": ("mlp", "nose")}, "each once, not mlp, nose"),
        ({"alpha": 0.0}, "alpha must lie between 0.000001 and 1, not 0"),
        ({"alpha": 1.0}, "alpha must lie between 0.000001 and 1, not 1"),
        ({"alpha": -0.5}, "alpha must lie between 0.000001 and 1, not -0.5"),
        ({"alpha": float("nan")}, "alpha must lie between 0.000001 and 1, not nan"),
        ({"alpha": 5e-324}, "alpha must lie between 0.000001 and 1, not 4.94066e-324"),
        ({"permutations": 0}, "permutations must be between 1 and 1000000, not 0"),
        ({"permutations": 10**9}, "permutations must be between 1 and 1000000, not 1000000000"),
        (
            {"permutations": 50},
            "alpha 0.01 cannot be reached with 50 permutations over 1 path(s); use at least 99",
        ),
        (
            {"permutations": 99, "paths": ("mlp", "value_output")},
            "alpha 0.01 cannot be reached with 99 permutations over 2 path(s); use at least 199",
        ),
    ],
)
def test_an_option_out_of_range_is_refused(options, message):
    with pytest.raises(OptionError) as error:
        Options(**options)
    assert message in str(error.value)


@pytest.mark.parametrize("options", [{"permutations": 99}, {"permutations": 199, "paths": ("mlp", "query_key")}])
def test_the_least_number_of_permutations_that_is_named_is_enough(options):
    assert Options(**options).alpha == 0.01
