"""The rules on names and settings alone: which tensors are the layers, and what makes that unclear."""

import math
from typing import Any

import numpy as np
import pytest

from hf_lineage.architecture.config_checks import parts
from hf_lineage.architecture.layout import bind
from hf_lineage.architecture.loaded_layers import LARGEST, as_loaded, refuse_hidden, scalar_reservations, within_range
from hf_lineage.architecture.registry import factorizations
from hf_lineage.errors import NothingToCompare
from tests.conformance.forms import variants
from tests.conformance.tiny import build_tiny_model

FILES = {found.name: found for found in factorizations()}
NO_LAYERS: tuple[Any, ...] = (0, -1, [], "", 2.0, True, {})
CONFIG = {"num_hidden_layers": 2, "num_attention_heads": 4}


def llama(layers=2):
    layer = {f"self_attn.{role}_proj.weight": (32, 32) for role in "qkvo"}
    layer |= {f"mlp.{role}_proj.weight": (48, 32) for role in ("gate", "up")}
    layer |= {"mlp.down_proj.weight": (32, 48)}
    layer |= {f"{norm}.weight": (32,) for norm in ("input_layernorm", "post_attention_layernorm")}
    return {f"model.layers.{number}.{name}": shape for number in range(layers) for name, shape in layer.items()}


def blocks(*depths):
    """The names of a network of stages: enough of them to count its layers."""
    names = "encoder.stages.{}.layers.{}.layer.{}.convolution.weight"
    return {
        names.format(stage, layer, part): (8, 8, 3, 3)
        for stage, depth in enumerate(depths)
        for layer in range(depth)
        for part in (0, 1)
    }


@pytest.mark.parametrize("config", [CONFIG, {**CONFIG, "n_layer": 2}, {"num_attention_heads": 4}])
def test_as_many_layers_as_config_json_says_are_all_read(config):
    assert as_loaded(FILES["llama"], llama(), config).shapes == llama()


@pytest.mark.parametrize(
    ("layers", "said", "message"),
    [
        *((layers, {}, rf"^config\.json says 2 layers and the weights hold {layers}: ") for layers in (1, 3, 4)),
        *((2, {"num_hidden_layers": value}, "says 0 layers") for value in NO_LAYERS),
        (4, {"num_nextn_predict_layers": 1}, "config"),
    ],
)
def test_another_number_of_layers_is_refused_and_so_is_none_at_all(layers, said, message):
    with pytest.raises(NothingToCompare, match=message):
        as_loaded(FILES["llama"], llama(layers), CONFIG | said)


def test_of_layers_after_the_last_only_those_are_left_out_that_config_json_counts():
    reading = as_loaded(FILES["llama"], llama(3), {**CONFIG, "num_nextn_predict_layers": 1})
    assert reading.shapes == llama(2)
    assert reading.notes == ("9 tensors of layers that only predict further tokens are left out, as in transformers",)


@pytest.mark.parametrize(("depths", "said"), [([2, 1], None), ([2, 2], "2 layers and"), ([2], "0 layers and")])
def test_every_stage_has_as_many_layers_as_its_list_says(depths, said):
    config = {"depths": depths}
    if said is None:
        assert as_loaded(FILES["resnet_basic"], blocks(2, 1), config).shapes == blocks(2, 1)
    else:
        with pytest.raises(NothingToCompare, match=f"says {said}"):
            as_loaded(FILES["resnet_basic"], blocks(2, 1), config)


def test_encoder_and_decoder_have_keys_of_their_own():
    shapes = {f"{stack}.block.{n}.layer.0.x.weight": (4, 4) for stack in ("encoder", "decoder") for n in range(2)}
    assert as_loaded(FILES["t5"], shapes, {"num_layers": 2}).shapes == shapes
    with pytest.raises(NothingToCompare, match="says 3 layers in the decoder and the weights hold 2"):
        as_loaded(FILES["t5"], shapes, {"num_layers": 2, "num_decoder_layers": 3})


def test_a_matrix_in_a_layer_that_nobody_knows_may_be_what_is_loaded():
    with pytest.raises(NothingToCompare, match=r"1 more matrices, such as model\.layers\.0\.mlp\.other\.weight"):
        refuse_hidden(bind(FILES["llama"], llama() | {"model.layers.0.mlp.other.weight": (48, 32)}, CONFIG))


NORM = "model.layers.0.post_attention_layernorm.weight"


@pytest.mark.parametrize(
    ("name", "scale", "gain", "passes"),
    [
        *(("mlp.down_proj.input_scale", scale, 1.0, True) for scale in (1.0, 20 / LARGEST, 2e4 / LARGEST)),
        *(("mlp.down_proj.input_scale", scale, 1.0, False) for scale in (1e-12, 0.0, -1.0, 1e6, np.nan, np.inf)),
        ("mlp.down_proj.input_scale", 1.0, 1e6, False),
        ("mlp.down_proj.input_scale", 1e4, 1e6, True),
        ("mlp.down_proj.input_scale", [1.0, 1e-12], 1.0, False),
        ("mlp.down_proj.input_scale", [], 1.0, False),
        pytest.param("mlp.up_proj.input_global_scale", 2688 / 20, 1.0, True, id="a global scale divides"),
        pytest.param("mlp.up_proj.input_global_scale", 1e4, 1.0, True, id="a global scale that would be too large"),
        pytest.param("mlp.up_proj.input_global_scale", 1e12, 1.0, False, id="a global scale that is too small"),
        pytest.param("lm_head.input_scale", 1.0, 1.0, True, id="without a norm the gain counts as one"),
        pytest.param("lm_head.input_scale", 1e-12, 1.0, False, id="without a norm, too small"),
        pytest.param("mlp.up_proj.input_zero_point", 1.0, 1.0, False, id="a zero point is never accounted for"),
    ],
)
def test_inputs_as_the_norm_gives_them_pass_or_the_scale_is_not_accounted_for(name, scale, gain, passes):
    name = f"model.layers.0.{name}" if name.startswith("mlp") else name
    layout = bind(FILES["llama"], llama(), CONFIG)
    read = {name: np.array(scale, np.float32), NORM: np.full(32, gain)}
    passing = within_range(layout, [name], {name: np.shape(scale)}, read.__getitem__)
    assert list(passing) == ([name] if passes else [])


GEMMA = "Gemma4TextModel"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return build_tiny_model(GEMMA, tmp_path_factory.mktemp("tiny"), variants(GEMMA)[1])


def said(tiny, layer_scalar=1.0, **stored):
    """What is said of a tiny model, other numbers in place of those of some tensors."""
    numbers = {"layer_scalar": layer_scalar} | stored

    def read(name):
        values = tiny.read(name).copy()
        values[...] = numbers.get(name.rpartition(".")[2], values)
        return values

    return list(scalar_reservations(tiny.layout, tiny.shapes, read, parts(tiny.model.config.to_dict(), None)))


def test_what_training_leaves_is_nothing_to_say(tiny):
    assert said(tiny, per_expert_scale=1.0, layer_scalar=0.5) == []


@pytest.mark.parametrize("value", [0.0, 1e-7, -1e-9, math.nan, np.array([1.0, 1.0, 0.0, 1.0])], ids=str)
def test_experts_that_are_multiplied_with_nothing_are_named_once_for_all_layers(tiny, value):
    """One of them is enough."""
    (sentence,) = said(tiny, per_expert_scale=value)
    assert sentence.startswith("layers.0.router.per_expert_scale holds numbers of the size ")
    assert sentence.endswith("(1 more layers have such a tensor too)")


def test_of_a_number_for_each_coordinate_the_mean_counts(tiny):
    some = np.where(np.arange(32) % 2, 0.0, 1.0)
    assert said(tiny, per_expert_scale=1.0, weight=some) == []
    (sentence,) = said(tiny, per_expert_scale=1.0, weight=1e-5)
    assert "layers.0.post_feedforward_layernorm.weight holds" in sentence


def test_a_tensor_that_cannot_be_read_or_has_no_numbers_is_a_reason_too(tiny):
    def refused(name):
        raise NothingToCompare(f"{name} is stored in a way that nobody knows")

    config, shapes = tiny.model.config.to_dict(), dict(tiny.shapes)
    found = list(scalar_reservations(tiny.layout, shapes, refused, parts(config, None)))
    assert any("is stored in a way that nobody knows; it decides whether a branch" in each for each in found)
    shapes["layers.0.router.per_expert_scale"] = (0,)
    found = list(scalar_reservations(tiny.layout, shapes, tiny.read, parts(config, None)))
    assert any(each.startswith("layers.0.router.per_expert_scale has shape (0,)") for each in found)
