"""What is in no branch is measured by its gains: how loud it is beside the base tells whether the stream is known."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hf_lineage.checking.source.lazy_signature import stream_of
from hf_lineage.checking.source.opening import headers
from hf_lineage.hub.reference import resolve
from tests.conformance import variants
from tests.decoys import made
from tests.models import EXAMPLES
from tests.signature.stream.test_scale import BERT, GPT2, LLAMA, scaled


def gains(folder, layer=1, seed=0):
    """How strongly acts what is not measured, outside of the layers and in one of them."""
    model = headers(resolve(str(folder)))
    return stream_of(model, seed).joins("mlp", (layer,))[0, 2:]


@pytest.mark.parametrize(
    ("name", "tensor", "inside"),
    [
        ("FalconH1ForCausalLM", "mamba.conv1d", True),
        ("JetMoeForCausalLM", "experts.output_linear", True),
        ("xLSTMForCausalLM", "multihead_norm", True),
        ("Gemma4ForCausalLM", "post_attention_layernorm", True),
        (GPT2, "wpe", False),
        ("WavLMForAudioFrameClassification", "feature_projection.projection", False),
    ],
)
def test_a_tensor_in_no_branch_that_is_louder_is_seen_to_be_where_it_stands(tmp_path, name, tensor, inside):
    wanted = {"do_stable_layer_norm": True} if "WavLM" in name else variants(name)[0]
    folder = made(name, wanted, tmp_path).a
    before = gains(folder)
    grew = gains(scaled(folder, tensor, 1e6)) - before
    assert math.log(1e4) < grew[int(inside)] < math.log(1e7)
    assert grew[int(not inside)] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("tensor", ["mlp.down_proj", "self_attn.o_proj", "self_attn.q_proj", "input_layernorm"])
def test_what_a_branch_is_made_of_is_not_counted_again(tmp_path, tensor):
    folder = made(LLAMA, {"attention_bias": False, "mlp_bias": False}, tmp_path).a
    before = gains(folder)
    assert gains(scaled(folder, tensor, 1e6)).tolist() == before.tolist()


def test_numbers_of_positions_multiply_nothing(tmp_path):
    """Files of older releases hold them, and graphs of ONNX."""
    stream = stream_of(headers(resolve(str(made(GPT2, {}, tmp_path).a))), 0)
    (table,) = (name for name in stream.checkpoint.tensors if name.endswith("wpe.weight"))
    loud = replace(stream.checkpoint.tensors[table], decode=lambda parts: np.arange(parts[0].size).reshape(1, -1))
    numbered = stream.checkpoint.with_tensors({**stream.checkpoint.tensors, "position_ids": loud, "position_idx": loud})
    more = [replace(stream.layout, outside=(*stream.layout.outside, name)) for name in ("position_ids", "position_idx")]
    counts = [replace(stream, checkpoint=numbered, layout=each).joins("mlp", (1,))[0, 2] for each in more]
    assert counts[0] == stream.joins("mlp", (1,))[0, 2] < counts[1]


@pytest.mark.parametrize(("bias", "counts"), [("c_fc.bias", False), ("mlp.c_proj.bias", True)])
def test_biases_of_hidden_units_are_measured_with_their_units_and_those_that_are_written_are_not(
    tmp_path, bias, counts
):
    folder = made(GPT2, {}, tmp_path).a
    before = gains(folder)[1]
    assert (gains(scaled(folder, bias, 1e6))[1] - before > math.log(1e3)) == counts


def test_what_is_quiet_makes_up_for_nothing(tmp_path):
    folder = made("FalconH1ForCausalLM", variants("FalconH1ForCausalLM")[0], tmp_path).a
    loud = gains(scaled(folder, "mamba.conv1d", 1e3))
    assert gains(scaled(folder, "mamba.in_proj", 1e-3))[1] >= loud[1] - math.log(10)


@pytest.mark.parametrize(("tensor", "inside"), [("mamba.conv1d", True), ("final_layernorm", False)])
def test_what_has_to_be_decoded_is_as_loud_as_it_is_once_decoded(tmp_path, tensor, inside):
    """Inside of layers in some of them, which are drawn."""
    folder = made("FalconH1ForCausalLM", variants("FalconH1ForCausalLM")[0], tmp_path).a
    grew = []
    for seed in range(24):
        stream = stream_of(headers(resolve(str(folder))), seed)
        decoded = {
            name: replace(info, decode=lambda parts: 1e6 * np.asarray(parts[0], np.float32)) if tensor in name else info
            for name, info in stream.checkpoint.tensors.items()
        }
        louder = replace(stream, checkpoint=stream.checkpoint.with_tensors(decoded))
        before, after = (each.joins("mlp", (1,))[0, 2 + inside] for each in (stream, louder))
        grew.append(after - before > math.log(1e4))
    assert any(grew) if inside else all(grew)


def test_a_norm_after_every_branch_makes_the_stream_as_large_as_its_gain(tmp_path):
    folder = made(BERT, {}, tmp_path).a
    assert gains(scaled(folder, "position_embeddings", 1e6)).tolist() == [0, 0]


def test_trained_models_act_about_alike_whichever_numbers_are_drawn():
    """Those of `examples/hub`, trained apart and on: far below a factor of ten."""
    models = [EXAMPLES / name for name in ("acme/gpt2-base", "acme/llama-base", "otter/llama-independent")]
    drawn = [[gains(model, seed=seed) for seed in range(3)] for model in models]
    assert np.ptp(drawn, axis=1).max() < math.log(1.5)
    assert np.abs(np.subtract(drawn[1], drawn[2])).max() < math.log(3)
