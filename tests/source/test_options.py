import math

import pytest

from hf_lineage import Options
from hf_lineage.errors import OptionError

REFUSED = [
    ({"paths": ("nose",)}, "be all, usual, or some of mlp, mlp_gate, value_output, query_key, each once, not nose"),
    ({"paths": ("mlp", "mlp")}, "each once, not mlp, mlp"),
    ({"paths": ("all", "mlp")}, "each once, not all, mlp"),
    ({"budget": "quick", "nulls": ("a/b",)}, "and a recipe without probes need all layers; leave --budget quick"),
    *(({"alpha": odd}, f"alpha must lie between 1e-06 and 0.5, not {odd:.7g}") for odd in (1.0, 0.0, math.nan, 5e-324)),
    *(({"permutations": n}, f"permutations must lie between 1 and 1000000, not {n:.7g}") for n in (0, 10**9)),
    ({"accept": ("part", "basis")}, "accept must be one of part, embedding, calibrated, weak, listed, not basis"),
    ({"seed": 2**64}, "seed must lie between 0 and 1.844674e+19, not 1.844674e+19"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_is_out_of_range_or_does_not_go_together_is_refused(options, message):
    with pytest.raises(OptionError) as error:
        Options(**options)
    assert message in str(error.value)


@pytest.mark.parametrize(("analyses", "drawn"), [(1, 100), (3, 300), (10, 1000)])
def test_as_many_permutations_are_drawn_as_alpha_takes_after_the_correction(analyses, drawn):
    assert Options(permutations=50).criteria(analyses=analyses).permutations_at_first() == drawn
    assert analyses / (drawn + 1) <= 0.01
