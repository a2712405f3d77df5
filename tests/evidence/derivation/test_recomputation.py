"""Numbers are computed anew as those who merge compute them: in float32, or step by step in the short format."""

import numpy as np
import pytest
import torch

from hf_lineage.evidence.derivation.combination import solved
from hf_lineage.evidence.derivation.matrices import Stored, inner_products
from hf_lineage.evidence.derivation.recomputation import Later, later
from hf_lineage.evidence.derivation.rounding import DIGITS, spacing

BF16 = DIGITS["BF16"]
GENERATOR = torch.Generator().manual_seed(0)
A = torch.randn(64, 64, generator=GENERATOR).bfloat16()
B = (A.float() + 0.1 * torch.randn(64, 64, generator=GENERATOR)).bfloat16()


def told(a, b, model, parent=1):
    own = model.float().numpy()
    beside = [(0, Stored(a.float().numpy())), (1, Stored(b.float().numpy()))]
    one = inner_products(0, "mlp", beside, Stored(own, BF16, spacing(own, BF16)))
    return later(one, solved(one.gram), parent)


def in_float32(a, b):
    return (0.57 * b.float() + 0.43 * a.float()).bfloat16()


def in_bfloat16(a, b):
    return (torch.stack([a, b]) * torch.tensor([0.43, 0.57]).bfloat16()[:, None, None]).sum(dim=0)


def by_task_arithmetic(a, b):
    return a + (b - a) * torch.tensor(0.57).bfloat16()


@pytest.mark.parametrize("merge", [in_float32, in_bfloat16, by_task_arithmetic])
def test_a_blend_is_computed_anew_to_the_last_digit(merge):
    assert told(A, B, merge(A, B)) is Later.MODEL


def test_the_mean_of_two_is_a_blend_though_half_of_its_numbers_lie_between_two():
    assert told(A, B, ((A.float() + B.float()) / 2).bfloat16()) is Later.MODEL


def test_a_parent_that_goes_beyond_the_model_came_later():
    beyond = (A.float() + (B.float() - A.float()) * 1.5).bfloat16()
    assert told(A, beyond, B) is Later.PARENT


def test_a_little_noise_leaves_nothing_to_compute_anew():
    noise = 0.01 * torch.randn(64, 64, generator=GENERATOR)
    assert told(A, B, (in_float32(A, B).float() + noise).bfloat16()) is Later.NEITHER


def test_a_model_with_all_of_one_parent_tells_nothing():
    assert told(A, B, B) is Later.NEITHER
    assert np.isfinite(B.float().numpy()).all()
