"""The rules on names and settings alone: which tensors are the layers, and what makes that unclear."""

import math
from contextlib import nullcontext
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


PLACES = [(stage, layer, part) for stage, depth in ((0, 2), (1, 1)) for layer in range(depth) for part in (0, 1)]
STAGES = {"encoder.stages.{}.layers.{}.layer.{}.convolution.weight".format(*at): (8, 8, 3, 3) for at in PLACES}
T5 = {f"{stack}.block.{n}.layer.0.x.weight": (4, 4) for stack in ("encoder", "decoder") for n in range(2)}


@pytest.mark.parametrize(
    ("file", "shapes", "config", "message"),
    [
        *(("llama", llama(), config, "") for config in (CONFIG, {**CONFIG, "n_layer": 2}, {"num_attention_heads": 4})),
        *(("resnet_basic", STAGES, {"depths": [2, 1]}, ""), ("t5", T5, {"num_layers": 2}, "")),
        *(("llama", llama(n), CONFIG, rf"^config\.json says 2 layers and the weights hold {n}: ") for n in (1, 3, 4)),
        *(("llama", llama(), {**CONFIG, "num_hidden_layers": value}, "says 0 layers") for value in NO_LAYERS),
        ("llama", llama(4), {**CONFIG, "num_nextn_predict_layers": 1}, "config"),
        *(("resnet_basic", STAGES, {"depths": [2] * n}, f"says {said} layers and") for n, said in ((2, 2), (1, 0))),
        ("t5", T5, {"num_layers": 2, "num_decoder_layers": 3}, "says 3 layers in the decoder and the weights hold 2"),
    ],
)
def test_as_many_layers_of_a_stage_or_stack_as_config_json_says_are_read_or_refused(file, shapes, config, message):
    with pytest.raises(NothingToCompare, match=message) if message else nullcontext():
        assert as_loaded(FILES[file], shapes, config).shapes == shapes


def test_only_counted_layers_are_left_out_and_an_unknown_matrix_is_refused():
    reading = as_loaded(FILES["llama"], llama(3), {**CONFIG, "num_nextn_predict_layers": 1})
    assert reading.shapes == llama(2)
    assert reading.notes == ("9 tensors of layers that only predict further tokens are left out, as in transformers",)
    with pytest.raises(NothingToCompare, match=r"1 more matrices, such as model\.layers\.0\.mlp\.other\.weight"):
        refuse_hidden(bind(FILES["llama"], llama() | {"model.layers.0.mlp.other.weight": (48, 32)}, CONFIG))


NORM = "model.layers.0.post_attention_layernorm.weight"
INPUT, GLOBAL = "mlp.down_proj.input_scale", "mlp.up_proj.input_global_scale"


@pytest.mark.parametrize(
    ("name", "scale", "gain", "passes"),
    [
        *((INPUT, scale, 1.0, True) for scale in (1.0, 20 / LARGEST, 2e4 / LARGEST)),
        *((INPUT, scale, 1.0, False) for scale in (1e-12, 0.0, -1.0, 1e6, np.nan, np.inf, [1.0, 1e-12], [])),
        *((INPUT, 1.0, 1e6, False), (INPUT, 1e4, 1e6, True)),
        *((GLOBAL, 2688 / 20, 1.0, True), (GLOBAL, 1e4, 1.0, True), (GLOBAL, 1e12, 1.0, False)),  # it divides
        *(
            ("lm_head.input_scale", 1.0, 1.0, True),
            ("lm_head.input_scale", 1e-12, 1.0, False),
        ),  # no norm: a gain of one
        ("mlp.up_proj.input_zero_point", 1.0, 1.0, False),  # it is never accounted for
    ],
)
def test_inputs_as_the_norm_gives_them_pass_or_the_scale_is_not_accounted_for(name, scale, gain, passes):
    name = f"model.layers.0.{name}" if name.startswith("mlp") else name
    layout = bind(FILES["llama"], llama(), CONFIG)
    read = {name: np.array(scale, np.float32), NORM: np.full(32, gain)}
    passing = within_range(layout, [name], {name: np.shape(scale)}, read.__getitem__)
    assert list(passing) == ([name] if passes else [])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    name = "Gemma4TextModel"
    return build_tiny_model(name, tmp_path_factory.mktemp("tiny"), variants(name)[1])


def said(tiny, read=None, shapes=(), **stored):
    """What is said of a tiny model, other numbers in place of those of some tensors."""
    numbers = {"layer_scalar": 1.0} | stored

    def changed(name):
        values = tiny.read(name).copy()
        values[...] = numbers.get(name.rpartition(".")[2], values)
        return values

    settings = parts(tiny.model.config.to_dict(), None)
    return list(scalar_reservations(tiny.layout, dict(tiny.shapes) | dict(shapes), read or changed, settings))


@pytest.mark.parametrize("value", [0.0, 1e-7, -1e-9, math.nan, np.array([1.0, 1.0, 0.0, 1.0])], ids=str)
def test_experts_that_are_multiplied_with_nothing_are_named_once_for_all_layers(tiny, value):
    """One of them is enough."""
    (sentence,) = said(tiny, per_expert_scale=value)
    assert sentence.startswith("layers.0.router.per_expert_scale holds numbers of the size ")
    assert sentence.endswith("(1 more layers have such a tensor too)")


def test_what_training_leaves_is_fine_and_of_numbers_by_coordinate_the_mean_counts(tiny):
    assert said(tiny, per_expert_scale=1.0, layer_scalar=0.5) == []
    some = np.where(np.arange(32) % 2, 0.0, 1.0)
    assert said(tiny, per_expert_scale=1.0, weight=some) == []
    (sentence,) = said(tiny, per_expert_scale=1.0, weight=1e-5)
    assert "layers.0.post_feedforward_layernorm.weight holds" in sentence


def test_a_tensor_that_cannot_be_read_or_has_no_numbers_is_a_reason_too(tiny):
    def refused(name):
        raise NothingToCompare(f"{name} is stored in a way that nobody knows")

    assert any(
        "is stored in a way that nobody knows; it decides whether a branch" in one for one in said(tiny, refused)
    )
    empty = "layers.0.router.per_expert_scale"
    assert any(one.startswith(f"{empty} has shape (0,)") for one in said(tiny, tiny.read, {empty: (0,)}))
