"""Models that began alike, blends, students, and tables of a class: what is measured is said, and no other cause."""

import shutil

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, DistilBertConfig, DistilBertForMaskedLM

from hf_lineage import Options, compare
from tests import models
from tests.models import EXAMPLES, fine_tuned, spoil, tiny_llama

BASIS = (
    "the coordinates of both models mean the same; the cause may be a copied embedding, a common initialisation, "
    "much training since, a blend with another model or training on hidden states of the base"
)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("noise", "words", "said"),
    [
        (4.0, "VERIFIED inherited", ""),
        (6.0, "RELATED part", "is inherited, in layers 1, 3, 5"),
        (8.0, "RELATED embedding", BASIS),
        (12.0, "RELATED embedding", BASIS),
    ],
)
def test_of_models_that_began_alike_no_cause_is_named_as_the_only_one(tmp_path, monkeypatch, noise, words, said):
    """What training adds to a start is drawn, for the one and the other."""
    monkeypatch.setattr(models, "HIDDEN", 256)
    start = tiny_llama(tmp_path / "start", layers=6, width=96)
    one, other = (fine_tuned(start, tmp_path / str(seed), noise, seed) for seed in (1, 2))
    verdict = compare(str(one), str(other), Options(seed=1, permutations=999)).rows[0].verdict
    assert verdict.label == words
    assert verdict.reason.endswith(said)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("share", "words", "said"), [(0.5, "RELATED part", "is inherited, in layer 2"), (0.4, "RELATED embedding", BASIS)]
)
def test_of_a_blend_with_another_model_it_is_said_that_it_may_be_one(tmp_path, share, words, said):
    base, other = (EXAMPLES / name for name in ("acme/llama-base", "otter/llama-independent"))
    shutil.copytree(base, tmp_path / "blend", ignore=shutil.ignore_patterns("README.md"))
    strange = load_file(other / "model.safetensors")

    def blend(tensors):
        for name, tensor in tensors.items():
            mixed = share * tensor.float() + (1 - share) * strange[name].float()
            tensors[name] = mixed.to(tensor.dtype)

    spoil(tmp_path / "blend", blend)
    verdict = compare(str(base), str(tmp_path / "blend"), Options(seed=1, permutations=999)).rows[0].verdict
    assert verdict.label == words
    assert verdict.reason.endswith(said)


SIZES = {"vocab_size": 64, "dim": 64, "hidden_dim": 128, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 48}


def trained(folder, seed):
    """A DistilBERT of its own seed that learns to say which token stood where it stands, from those around it."""
    torch.manual_seed(seed)
    config = DistilBertConfig(**SIZES, sinusoidal_pos_embds=True, dropout=0.0, attention_dropout=0.0)
    model = DistilBertForMaskedLM(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        tokens = torch.randint(64, (16, 48))
        loss = model(input_ids=tokens, labels=tokens.roll(1, dims=1)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    return str(folder)


def test_models_that_began_with_the_same_sinusoids_are_not_related_and_a_copy_is(tmp_path):
    """What all models of a class begin with is no evidence of a common ancestor."""
    one, other = (trained(tmp_path / str(seed), seed) for seed in (1, 2))
    (row,) = compare(one, other).rows
    assert row.verdict.code == "unrelated"
    assert all(one.permutation.objection for one in row.verdict.evidence.values())
    (row,) = compare(one, one).rows
    assert row.verdict.code == "inherited"


TEACHER = EXAMPLES / "acme/llama-base"
STEPS = 600


def taught(folder):
    """A student whose hidden states are held to those of the teacher, on texts of any tokens."""
    torch.manual_seed(11)
    config = AutoConfig.from_pretrained(TEACHER, initializer_range=0.02)
    teacher = AutoModelForCausalLM.from_pretrained(TEACHER, dtype=torch.float32).eval()
    student = AutoModelForCausalLM.from_config(config).float()
    optimizer = torch.optim.AdamW(student.parameters(), lr=0.01, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=STEPS)
    for _ in range(STEPS):
        texts = torch.randint(0, config.vocab_size, (32, 8))
        with torch.no_grad():
            goals = teacher(texts, output_hidden_states=True).hidden_states
        states = student(texts, output_hidden_states=True).hidden_states
        pairs = zip(states, goals, strict=True)
        loss = sum(((state - goal).square().mean() / goal.square().mean() for state, goal in pairs), torch.zeros(()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    student.save_pretrained(folder)
    return folder


@pytest.mark.long
def test_of_a_student_of_hidden_states_it_is_said_that_it_may_be_one_and_that_hardly_a_unit_is_inherited(tmp_path):
    student = taught(tmp_path / "student")
    verdict = compare(str(TEACHER), str(student), Options(seed=1, permutations=999)).rows[0].verdict
    assert (verdict.label, verdict.verified, int(verdict.exit_code)) == ("RELATED embedding", False, 3)
    assert verdict.reason.endswith(BASIS)
    assert verdict.evidence["mlp"].inherited.share < 0.05
