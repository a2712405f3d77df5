"""Students on fresh weights that learned what a teacher's stream holds: no weight is inherited, and a basis is."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from hf_lineage import Options, compare
from tests.checking.test_starts import BASIS
from tests.models import EXAMPLES

TEACHER = EXAMPLES / "acme/llama-base"
STEPS, TEXTS, TOKENS = 600, 32, 8


def taught(folder):
    """A student whose hidden states are held to those of the teacher, on texts of any tokens."""
    torch.manual_seed(11)
    config = AutoConfig.from_pretrained(TEACHER, initializer_range=0.02)
    teacher = AutoModelForCausalLM.from_pretrained(TEACHER, dtype=torch.float32).eval()
    student = AutoModelForCausalLM.from_config(config).float()
    optimizer = torch.optim.AdamW(student.parameters(), lr=0.01, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=STEPS)
    for _ in range(STEPS):
        texts = torch.randint(0, config.vocab_size, (TEXTS, TOKENS))
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
