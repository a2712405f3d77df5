"""Tables that all models of a class begin with: what they leave in common is no evidence of a common ancestor."""

import pytest
import torch
from transformers import DistilBertConfig, DistilBertForMaskedLM

from hf_lineage import compare

SIZES = {"vocab_size": 64, "dim": 64, "hidden_dim": 128, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 48}
STEPS, BATCH = 60, 16


def trained(folder, seed):
    """A DistilBERT of its own seed that learns to say which token stood where it stands, from those around it."""
    torch.manual_seed(seed)
    config = DistilBertConfig(**SIZES, sinusoidal_pos_embds=True, dropout=0.0, attention_dropout=0.0)
    model = DistilBertForMaskedLM(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(STEPS):
        tokens = torch.randint(64, (BATCH, 48))
        loss = model(input_ids=tokens, labels=tokens.roll(1, dims=1)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two of them, with nothing in common but the sinusoids that they began with."""
    folder = tmp_path_factory.mktemp("sinusoids")
    return [trained(folder / str(seed), seed) for seed in (1, 2)]


def test_models_that_began_with_the_same_sinusoids_are_not_related(pair):
    (row,) = compare(*pair).rows
    assert row.verdict.code == "unrelated"
    assert all(one.permutation.objection for one in row.verdict.evidence.values())


def test_a_copy_of_such_a_model_is_related(pair):
    (row,) = compare(pair[0], pair[0]).rows
    assert row.verdict.code == "inherited"
