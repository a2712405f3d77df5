import pytest

from hf_lineage.errors import OptionError
from hf_lineage.signature.options import Sources, Spec


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ((), "paths must be all, or one or more of mlp, mlp_gate, value_output, query_key, each once, not "),
        (("mlp", "mlp"), "each once, not mlp, mlp"),
        (("mlp", "nose"), "each once, not mlp, nose"),
    ],
)
def test_paths_that_are_unknown_or_named_twice_are_refused(paths, message):
    with pytest.raises(OptionError) as error:
        Spec(paths=paths)
    assert message in str(error.value)


def test_weights_cannot_be_asked_for_and_forbidden_at_once():
    with pytest.raises(OptionError, match="--recompute reads the weights, and --published forbids to download them"):
        Sources(recompute=True, published=True)
