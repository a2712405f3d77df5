"""Edits that leave a model's function where it was: the logits stay, and the weights move."""

import copy

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from benchmarks.paper.parts import cases, hiding, huref
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.laundering import FunctionError
from benchmarks.paper.parts.public import HUB

TOKENS = torch.arange(48).view(2, 24)


def untrained(family):
    """A tiny model with heads that share keys and values, gains that are not one and shifts that are not zero."""
    torch.manual_seed(0)
    sizes = {"bos_token_id": None, "eos_token_id": None, "vocab_size": 64, "initializer_range": 0.2}
    if family == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(n_embd=24, n_inner=40, n_layer=3, n_head=3, n_positions=32, **sizes))
    else:
        config = LlamaConfig(
            hidden_size=24,
            intermediate_size=40,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            **sizes,
        )
        model = LlamaForCausalLM(config)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data.add_(0.5 * torch.rand_like(parameter))
    return model.double().eval()


@pytest.fixture(scope="module")
def models():
    return {family: untrained(family) for family in hiding.FAMILIES}


def test_an_edit_that_moves_a_logit_is_refused(models):
    model = copy.deepcopy(models["llama"])
    with pytest.raises(FunctionError, match="moved by"):
        cases.moved(model, lambda model: model.lm_head.weight.data.mul_(1.001), TOKENS)


def test_hurefs_invariant_survives_a_rotation_and_not_the_moved_gains(tmp_path):
    base, other = HUB / "acme" / "llama-base", HUB / "otter" / "llama-independent"
    edits = ("stream rotated", "gains moved")
    rotated, moved = (cases.hidden(Cache(tmp_path), base, name, hiding.LLAMA[name], TOKENS).folder for name in edits)
    assert huref.similarity(base, base) == pytest.approx(1)
    assert huref.similarity(base, rotated) > huref.similarity(base, moved) > huref.similarity(base, other)
