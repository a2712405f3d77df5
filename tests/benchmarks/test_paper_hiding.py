"""Edits that leave a model's function where it was: the logits stay, and the weights move."""

import copy

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from benchmarks.paper.parts import cases, hiding, huref, rated, streams
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.laundering import FunctionError
from benchmarks.paper.parts.public import HUB

TOKENS = torch.arange(48).view(2, 24)
EDITS = [(family, name) for family, edits in hiding.FAMILIES.items() for name in edits]


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


@pytest.mark.parametrize(("family", "name"), EDITS)
def test_an_edit_leaves_the_logits_and_moves_the_weights(family, name, models):
    model = copy.deepcopy(models[family])
    assert cases.moved(model, hiding.FAMILIES[family][name], TOKENS) <= cases.ROUNDING
    before, after = models[family].state_dict(), model.state_dict()
    same = [key for key in before if key in after and torch.equal(before[key], after[key])]
    assert len(same) < len(before)


@pytest.mark.parametrize("family", hiding.FAMILIES)
def test_everything_at_once_moves_every_matrix_of_every_layer(family, models, tmp_path):
    model = copy.deepcopy(models[family])
    cases.moved(model, hiding.FAMILIES[family]["all at once"], TOKENS)
    assert len(streams.layers(model)) == 4
    for read in streams.stream(model).reads:
        assert not any(torch.equal(matrix, other) for matrix in read.readers for other in models[family].parameters())
    model.float().save_pretrained(tmp_path)
    with torch.no_grad():
        apart = cases.loaded(tmp_path)(input_ids=TOKENS).logits - models[family](input_ids=TOKENS).logits
    assert apart.abs().max() < 1e-4


def test_an_edit_that_moves_a_logit_is_refused(models):
    model = copy.deepcopy(models["llama"])
    with pytest.raises(FunctionError, match="moved by"):
        cases.moved(model, lambda model: model.lm_head.weight.data.mul_(1.001), TOKENS)


def test_a_turn_that_keeps_the_mean_is_orthogonal():
    turn = streams.random_turn(9, keeps_mean=True)
    ones = torch.ones(9, dtype=torch.float64)
    torch.testing.assert_close(turn @ ones, ones)
    torch.testing.assert_close(turn @ turn.T, torch.eye(9, dtype=torch.float64))


def test_hurefs_invariant_survives_a_rotation_and_not_the_moved_gains(tmp_path):
    base, other = HUB / "acme" / "llama-base", HUB / "otter" / "llama-independent"
    edits = ("stream rotated", "gains moved")
    rotated, moved = (cases.hidden(Cache(tmp_path), base, name, hiding.LLAMA[name], TOKENS).folder for name in edits)
    assert huref.similarity(base, base) == pytest.approx(1)
    assert huref.similarity(base, rotated) > huref.similarity(base, moved) > huref.similarity(base, other)


def test_models_of_unlike_shapes_have_no_cosine(tmp_path):
    base = HUB / "acme" / "llama-base"
    name = "dead units added"
    folder = cases.hidden(Cache(tmp_path), base, name, hiding.LLAMA[name], TOKENS).folder
    assert rated.cosine(base, base) == pytest.approx(1)
    assert rated.cosine(base, folder) == 0
