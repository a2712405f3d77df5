"""The rules on names and settings alone: which tensors are the layers, and what makes that unclear."""

import pytest

from hf_lineage.architecture.layout import bind
from hf_lineage.architecture.loading.layers import as_loaded, refuse_hidden
from hf_lineage.architecture.registry.lookups import factorizations
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


def hidden(besides, **config):
    shapes = llama() | besides
    return refuse_hidden(bind(FILES["llama"], shapes, CONFIG), shapes, config)


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


@pytest.mark.parametrize(
    "prefix", ["transformer.layers", "model-layers", "a.b.layers", "base_model.model.model.layers"]
)
def test_layers_of_the_same_names_and_shapes_elsewhere_are_refused(prefix):
    with pytest.raises(NothingToCompare, match="matrices with the names and shapes of the layers stand under"):
        hidden(llama(1, prefix))


@pytest.mark.parametrize("prefix", ["mtp.layers", "model.mtp.layers", "vision_tower.layers", "visual.blocks"])
def test_layers_that_no_class_loads_as_these_are_said(prefix):
    (note,) = hidden(llama(1, prefix))
    assert note == (
        f"7 tensors like those of the layers stand under {prefix}.0.; they belong elsewhere and were not read"
    )


def test_layers_of_another_shape_or_one_matrix_alone_are_nothing():
    assert hidden({name: (7, *shape[1:]) for name, shape in llama(1, "other.layers").items()}) == ()
    assert hidden({"other.0.mlp.up_proj.weight": (48, 32)}) == ()


def test_a_matrix_in_a_layer_that_nobody_knows_may_be_what_is_loaded():
    with pytest.raises(NothingToCompare, match=r"1 more matrices, such as model\.layers\.0\.mlp\.other\.weight"):
        hidden({"model.layers.0.mlp.other.weight": (48, 32)})


def test_vectors_and_buffers_are_left_over_in_peace():
    besides = {"model.layers.0.self_attn.rotary_emb.inv_freq": (4,), "model.layers.0.mlp.up_proj.bias": (48,)}
    assert hidden(besides | {"lm_head.weight": (50, 32), "score.weight": (2, 32)}) == ()


@pytest.mark.parametrize("name", ["up_proj.weight_scale_inv", "up_proj.SCB", "up_proj.lora_A.weight", "up_proj_scales"])
def test_what_stands_beside_a_matrix_is_said_and_with_quantization_refused(name):
    besides = {f"model.layers.0.mlp.{name}": (1,)}
    assert hidden(besides) == (f"tensors beside matrices were not read (1), such as model.layers.0.mlp.{name}",)
    with pytest.raises(NothingToCompare, match="give scales for the matrices,"):
        hidden(besides, quantization_config={"quant_method": "fp8"})


def test_a_quantization_that_is_only_in_the_configuration_is_said():
    assert hidden({}, quantization_config={"quant_method": "bitsandbytes"}) == (
        "config.json has a `quantization_config`, but the weights are plain numbers; they are judged as stored",
    )
