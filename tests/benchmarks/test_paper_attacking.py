"""Attacks: what each changes of a model, and what it leaves."""

import pytest
import torch
from transformers import AutoTokenizer

from benchmarks.paper.items import ours_attacks
from benchmarks.paper.items.ours_reshaped import loaded
from benchmarks.paper.parts import attacking
from benchmarks.paper.parts.folders import write_tokenizer
from benchmarks.paper.parts.public import HUB
from benchmarks.paper.parts.text import documentation

TEXT = "Return the bird, naïve 鳥"
LIKENESSES = [attacking.of_mlp, attacking.of_all_paths, attacking.of_units]


@pytest.fixture
def model():
    return loaded(HUB / "acme" / "llama-base")


def test_renumbered_tokens_say_the_same_with_the_tokenizer_that_says_so(model, tmp_path):
    write_tokenizer(tmp_path)
    tokens = torch.tensor([list(TEXT.encode())])
    with torch.no_grad():
        before = model(input_ids=tokens).logits
        attacking.renumbered(model, ours_attacks.ORDER)
        attacking.renumber_tokenizer(tmp_path, ours_attacks.ORDER)
        now = torch.tensor([AutoTokenizer.from_pretrained(tmp_path)(TEXT).input_ids])
        after = model(input_ids=now).logits
    assert not torch.equal(now, tokens)
    torch.testing.assert_close(after, before[..., ours_attacks.ORDER])


@pytest.mark.parametrize("seen", LIKENESSES)
def test_training_against_a_likeness_lowers_it(seen, model):
    before = [tensor.detach().clone() for tensor in seen(model)]

    def likeness():
        with torch.no_grad():
            return float(torch.stack([attacking.alike(*both) for both in zip(seen(model), before, strict=True)]).mean())

    assert likeness() == pytest.approx(1, abs=1e-5)
    attacking.suppressed(model, documentation(), seen, steps=3, price=100.0)
    assert likeness() < 0.999


def test_a_fresh_embedding_leaves_the_layers_alone(model):
    layers = [parameter.clone() for parameter in model.model.layers.parameters()]
    embedding = model.model.embed_tokens.weight.clone()
    attacking.embedded_anew(model, documentation(), steps=1)
    assert all(torch.equal(*both) for both in zip(layers, model.model.layers.parameters(), strict=True))
    assert torch.cosine_similarity(embedding.flatten(), model.model.embed_tokens.weight.flatten(), dim=0).abs() < 0.1
