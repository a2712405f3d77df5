"""A model is given text of its own and random tokens, or what else its class takes, drawn by a seed."""

import pytest
import torch

from hf_lineage.running.executed.inputs import Source
from hf_lineage.running.executed.loading import CannotRunError
from tests.conformance.models import tiny_model

SHAPES = {
    "LlamaForCausalLM": {"text": (64, 10), "random": (2, 256)},
    "GPT2LMHeadModel": {"text": (64, 10), "random": (2, 256)},
    "T5ForConditionalGeneration": {"text": (64, 16), "random": (64, 16)},
    "BertForMaskedLM": {"random": (64, 16)},
    "BertModel": {"random": (64, 16)},
    "ViTForImageClassification": {"noise": (8, 3, 24, 24)},
    "LlavaForConditionalGeneration": {"text": (64, 10), "random": (2, 256)},
    "Qwen3VLVisionModel": {"noise": (2048, 12)},
    "Siglip2VisionModel": {"noise": (8, 64, 12)},
    "VoxtralEncoder": {"noise": (2, 24, 288)},
    "CLIPModel": {"noise": (8, 16)},
}


def drawn(name, seed=3, edit=None):
    model = tiny_model(name, {})
    if edit:
        edit(model)
    return {each.kind: each for each in Source(model, seed).draw()}


@pytest.mark.parametrize("name", SHAPES)
def test_every_kind_of_class_is_given_what_it_takes(name):
    seen = drawn(name)
    assert {kind: tuple(next(iter(each.given.values())).shape) for kind, each in seen.items()} == SHAPES[name]


def test_no_configuration_keeps_a_run_short_where_positions_have_no_end():
    def short(model):
        model.config.max_position_embeddings = 12

    assert drawn("LlamaForCausalLM", edit=short)["random"].given["input_ids"].shape == (2, 256)
    assert drawn("GPT2LMHeadModel", edit=lambda model: setattr(model.config, "n_positions", 12))["random"].given[
        "input_ids"
    ].shape == (2, 12)


def test_a_seed_draws_the_same_text_again_and_another_one_another():
    texts = [drawn("LlamaForCausalLM", seed)["text"].given["input_ids"] for seed in (3, 3, 4)]
    assert (torch.equal(texts[0], texts[1]), torch.equal(texts[0], texts[2])) == (True, False)


def test_text_begins_with_the_begin_token_and_is_what_the_model_predicts():
    def next_one(model):
        """Whatever it reads, it says the number of the last token and one more."""
        for parameter in model.model.layers.parameters():
            parameter.data.zero_()
        model.model.embed_tokens.weight.data = 30 * torch.eye(64)[:, :32].roll(0, 1)
        model.lm_head.weight.data = torch.zeros(64, 32)
        model.lm_head.weight.data[1:33] = 30 * torch.eye(32)
        model.model.norm.weight.data.fill_(1)

    text = drawn("LlamaForCausalLM", edit=next_one)["text"]
    tokens = text.given["input_ids"]
    assert (tokens[:, 0] == 1).all()
    assert text.first == 1
    known = tokens[tokens[:, 1] < 22]
    assert len(known) > 5
    assert (known[:, 2:] == known[:, 1:-1] + 1).all()


def test_the_cache_of_keys_and_values_changes_no_text():
    model = tiny_model("LlamaForCausalLM", {})
    with_cache = Source(model, 3)._written().given["input_ids"]
    plain = Source(model, 3)
    plain._accepted = {key: value for key, value in plain._accepted.items() if key != "past_key_values"}
    assert torch.equal(plain._written().given["input_ids"], with_cache)


def test_tokens_are_masked_where_the_configuration_names_a_token_for_that():
    def named(model):
        model.config.mask_token_id = 5

    each = drawn("BertForMaskedLM", edit=named)["random"]
    masked = each.given["input_ids"] == 5
    assert 0.08 < float(each.predicted.float().mean()) < 0.25
    assert bool(masked[each.predicted].all())


def test_what_is_not_known_is_a_reason():
    model = tiny_model("ASTForAudioClassification", {})
    with pytest.raises(CannotRunError, match="what its class takes, besides tokens, square pictures and sounds"):
        Source(model, 3).draw()


def test_predictions_that_are_not_finite_are_a_reason():
    def broken(model):
        model.lm_head.weight.data.fill_(float("nan"))

    with pytest.raises(CannotRunError, match="is not finite"):
        drawn("LlamaForCausalLM", edit=broken)
