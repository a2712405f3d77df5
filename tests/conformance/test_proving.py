"""Names that a factorization says and no model of its class has."""

import pytest
import torch

from tests.conformance.forms import WIDTH
from tests.conformance.models import FUNCTION, by_modules, tiny_model
from tests.conformance.proving import names_said, names_unseen, pretend
from tests.conformance.tiny import build_tiny_model

PLANTED = {"ignores": ("mlp.router",), "mlp": {"norm": ("planted", "post_attention_layernorm")}}


@pytest.mark.parametrize(("said", "unseen"), [({}, set()), (PLANTED, {"planted", "mlp.router"})])
def test_names_that_the_class_never_writes_are_told_and_no_others(said, unseen, tmp_path):
    entry = pretend("llama", layers="model.layers.{layer}", **said)
    assert names_unseen(names_said(entry), build_tiny_model("LlamaForCausalLM", tmp_path, {}, entry)) == unseen


def test_what_is_called_by_modules_is_what_one_function_computes():
    model = tiny_model("WavLMModel", {})
    module = next(one for one in model.modules() if hasattr(one, FUNCTION))
    states, mask = torch.randn(2, 5, WIDTH), torch.tensor([[1] * 5, [1, 1, 1, 0, 0]])
    with torch.no_grad():
        as_one, _, _ = module(states, mask)
        by_modules(model)
        apart, _, _ = module(states, mask)
    torch.testing.assert_close(apart, as_one)
    assert as_one.abs().max() > 0.01
