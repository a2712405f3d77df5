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
        ({"paths": ("mlp", "mlp")}, "each once, not mlp, mlp"),
        ({"paths": ("all", "mlp")}, "each once, not all, mlp"),
        ({"budget": "quick", "nulls": ("a/b",)}, "--null and probes=exact need all layers; leave --budget quick out"),
        ({"alpha": 1.0}, "alpha must lie between 0.000001 and 1, not 1"),
        ({"alpha": 0.0}, "alpha must lie between 0.000001 and 1, not 0"),
        ({"alpha": float("nan")}, "alpha must lie between 0.000001 and 1, not nan"),
        ({"alpha": 5e-324}, "alpha must lie between 0.000001 and 1, not 4.94066e-324"),
        ({"permutations": 0}, "permutations must be between 1 and 1000000, not 0"),
        ({"permutations": 10**9}, "permutations must be between 1 and 1000000, not 1000000000"),
        ({"accept": ("part", "basis")}, "accept must be one of part, embedding, calibrated, weak, listed, not basis"),
        ({"evidence": "exact"}, "there is no option evidence; the options are recipe, paths, recompute, alpha,"),
        ({"order_seed": 2**64}, "order_seed must lie between 0 and 2^64 - 1, not at 18446744073709551616"),
    ],
)
def test_what_is_out_of_range_or_does_not_go_together_is_refused(options, message):
    with pytest.raises(OptionError) as error:
        Options(**options)
    assert message in str(error.value)


@pytest.mark.parametrize(("analyses", "drawn"), [(1, 100), (3, 300), (10, 1000)])
def test_as_many_permutations_are_drawn_as_alpha_takes_after_the_correction(analyses, drawn):
    assert Options(permutations=50).criteria(analyses=analyses).permutations_at_first() == drawn
    assert analyses / (drawn + 1) <= 0.01


def test_they_are_one_flat_record_that_is_named_by_keywords():
    assert all(field.kw_only for field in dataclasses.fields(Options))
