"""Edits that leave a model's function where it was: the logits stay, and the weights move."""

import pytest
import torch
from transformers import LlamaForCausalLM

from benchmarks.paper.parts import cases, hiding, huref
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.examples import HUB
from benchmarks.paper.parts.laundering import FunctionError

TOKENS = torch.arange(48).view(2, 24)


def test_an_edit_that_moves_a_logit_is_refused():
    model = LlamaForCausalLM.from_pretrained(HUB / "acme" / "llama-base").double().eval()
    with pytest.raises(FunctionError, match="moved by"):
        cases.moved(model, lambda model: model.lm_head.weight.data.mul_(1.001), TOKENS)


def test_hurefs_invariant_survives_a_rotation_and_not_the_moved_gains(tmp_path):
    base, other = HUB / "acme" / "llama-base", HUB / "otter" / "llama-independent"
    edits = ("stream rotated", "gains moved")
    rotated, moved = (cases.hidden(Cache(tmp_path), base, name, hiding.LLAMA[name], TOKENS).folder for name in edits)
    assert huref.similarity(base, base) == pytest.approx(1)
    assert huref.similarity(base, rotated) > huref.similarity(base, moved) > huref.similarity(base, other)
