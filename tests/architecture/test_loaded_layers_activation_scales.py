import numpy as np
import pytest

from hf_lineage.architecture.layout import bind
from hf_lineage.architecture.loaded_layers import LARGEST, within_range
from tests.architecture.test_loaded_layers import CONFIG, FILES, llama

DOWN, HEAD = "model.layers.0.mlp.down_proj.input_scale", "lm_head.input_scale"


def passing(name, scale, gain=1.0):
    layout = bind(FILES["llama"], llama(), CONFIG)
    read = {name: np.array(scale, np.float32), "model.layers.0.post_attention_layernorm.weight": np.full(32, gain)}
    return list(within_range(layout, [name], {name: np.shape(scale)}, read.__getitem__)) == [name]


@pytest.mark.parametrize(
    ("scale", "gain", "passes"),
    [
        *((scale, 1.0, True) for scale in (1.0, 20 / LARGEST, 2e4 / LARGEST)),
        *((scale, 1.0, False) for scale in (1e-12, 0.0, -1.0, 1e6, np.nan, np.inf)),
        (1.0, 1e6, False),
        (1e4, 1e6, True),
        ([1.0, 1e-12], 1.0, False),
        ([], 1.0, False),
    ],
)
def test_inputs_as_the_norm_gives_them_pass_or_the_scale_is_not_accounted_for(scale, gain, passes):
    assert passing(DOWN, scale, gain) is passes


def test_a_global_scale_divides_and_a_matrix_without_a_norm_counts_as_one_of_gain_one():
    assert passing("model.layers.0.mlp.up_proj.input_global_scale", 2688 / 20)
    assert not passing("model.layers.0.mlp.up_proj.input_global_scale", 1e12)
    assert passing(HEAD, 1.0)
    assert not passing(HEAD, 1e-12)


def test_a_zero_point_of_inputs_is_never_accounted_for():
    assert not passing("model.layers.0.mlp.up_proj.input_zero_point", 1.0)
