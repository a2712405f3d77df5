"""Names that a factorization says and no model of its class has."""

from functools import partial

import torch
from transformers.models.wavlm.modeling_wavlm import WavLMAttention

from tests.conformance import build_tiny_model, by_modules, pretend
from tests.conformance.proving import names_said, names_unseen
from tests.conformance.settings import HEADS, WIDTH


def test_every_name_of_a_right_file_is_on_disk(tmp_path):
    entry = pretend("llama", layers="model.layers.{layer}")
    assert names_unseen(names_said(entry), build_tiny_model("LlamaForCausalLM", tmp_path, {}, entry)) == set()


def test_a_name_that_the_class_never_writes_is_told(tmp_path):
    entry = pretend(
        "llama",
        layers="model.layers.{layer}",
        ignores=("mlp.router",),
        mlp={"norm": ("planted", "post_attention_layernorm")},
    )
    unseen = names_unseen(names_said(entry), build_tiny_model("LlamaForCausalLM", tmp_path, {}, entry))
    assert unseen == {"planted", "mlp.router"}


def test_what_is_called_by_modules_is_what_one_function_computes():
    torch.manual_seed(0)
    module = WavLMAttention(WIDTH, HEADS, num_buckets=32).eval()
    states, mask = torch.randn(2, 5, WIDTH), torch.tensor([[1] * 5, [1, 1, 1, 0, 0]])
    seen = []
    with torch.no_grad():
        for attend in (by_modules.attend, by_modules.AS_ONE_FUNCTION):
            module.torch_multi_head_self_attention = partial(attend, module)
            seen.append(module(states, mask)[0])
    torch.testing.assert_close(*seen)
    assert seen[0].abs().max() > 0.01
