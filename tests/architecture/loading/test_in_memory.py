import pytest

from hf_lineage.architecture.loading.in_memory import places
from hf_lineage.errors import CheckpointError

STACK = "layers.0.experts.both"


@pytest.mark.parametrize("shape", [(4097, 8, 4), (4, 7, 4), (4, 0, 4), (4,), ()])
def test_a_shape_that_no_stack_of_experts_has_is_refused_by_its_name(shape):
    """`tests/tensors/test_tables.py` has the places of every class."""
    with pytest.raises(
        CheckpointError, match=rf"{STACK} has shape .* does not fit .*\.\*\.gate and .*\.\*\.up: the weights"
    ):
        places({"layers.*.experts.both": ("layers.*.experts.*.gate", "layers.*.experts.*.up")}, {STACK: shape})
