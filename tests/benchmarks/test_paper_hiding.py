"""Edits that leave a model's function where it was: the logits stay, and the weights move."""

import pytest
import torch
from transformers import LlamaForCausalLM

from benchmarks.paper.parts import cases
from benchmarks.paper.parts.examples import HUB
from benchmarks.paper.parts.laundering import FunctionError

TOKENS = torch.arange(48).view(2, 24)


def test_an_edit_that_moves_a_logit_is_refused():
    model = LlamaForCausalLM.from_pretrained(HUB / "acme" / "llama-base").double().eval()
    with pytest.raises(FunctionError, match="moved by"):
        cases.moved(model, lambda model: model.lm_head.weight.data.mul_(1.001), TOKENS)
