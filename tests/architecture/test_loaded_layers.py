"""The rules on names and settings alone: which tensors are the layers, and what makes that unclear."""

import pytest

from hf_lineage.architecture.layout import bind
from hf_lineage.architecture.loaded_layers import as_loaded, refuse_hidden
from hf_lineage.architecture.registry import factorizations
from hf_lineage.errors import NothingToCompare

FILES = {found.name: found for found in factorizations()}
CONFIG = {"num_hidden_layers": 2, "num_attention_heads": 4}


def llama(layers=2, prefix="model.layers"):
    shapes = {}
    for layer in range(layers):
        here = f"{prefix}.{layer}"
        shapes |= {f"{here}.self_attn.{role}_proj.weight": (32, 32) for role in "qkvo"}
        shapes |= {f"{here}.mlp.{role}_proj.weight": (48, 32) for role in ("gate", "up")}
        shapes |= {f"{here}.mlp.down_proj.weight": (32, 48)}
        shapes |= {f"{here}.{norm}.weight": (32,) for norm in ("input_layernorm", "post_attention_layernorm")}
    return shapes


def blocks(*depths):
    """The names of a network of stages: enough of them to count its layers."""
    names = "encoder.stages.{}.layers.{}.layer.{}.convolution.weight"
    return {
        names.format(stage, layer, part): (8, 8, 3, 3)
        for stage, depth in enumerate(depths)
        for layer in range(depth)
        for part in (0, 1)
    }


def hidden(besides):
    return refuse_hidden(bind(FILES["llama"], llama() | besides, CONFIG))


@pytest.mark.parametrize("config", [CONFIG, {**CONFIG, "n_layer": 2}, {"num_attention_heads": 4}])
def test_as_many_layers_as_config_json_says_are_all_read(config):
    assert as_loaded(FILES["llama"], llama(), config).shapes == llama()


@pytest.mark.parametrize("layers", [1, 3, 4])
def test_another_number_of_layers_is_refused(layers):
    with pytest.raises(NothingToCompare, match=rf"^config\.json says 2 layers and the weights hold {layers}: "):
        as_loaded(FILES["llama"], llama(layers), CONFIG)


def test_of_layers_after_the_last_only_those_are_left_out_that_config_json_counts():
    reading = as_loaded(FILES["llama"], llama(3), {**CONFIG, "num_nextn_predict_layers": 1})
    assert reading.shapes == llama(2)
    assert reading.notes == ("9 tensors of layers that only predict further tokens are left out, as in transformers",)
    with pytest.raises(NothingToCompare):
        as_loaded(FILES["llama"], llama(4), {**CONFIG, "num_nextn_predict_layers": 1})


@pytest.mark.parametrize("value", [0, -1, [], "", 2.0, True, {}])
def test_no_layers_at_all_is_another_number(value):
    with pytest.raises(NothingToCompare, match="says 0 layers"):
        as_loaded(FILES["llama"], llama(), {**CONFIG, "num_hidden_layers": value})


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
        hidden({"model.layers.0.mlp.other.weight": (48, 32)})
