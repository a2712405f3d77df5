"""What was done to a matrix is told from its difference, and nothing is told that rounding can hide."""

import itertools

import numpy as np
import pytest
import torch

from hf_lineage.checkpoint.rounding import DIGITS
from hf_lineage.evidence.change import measure_change
from tests.checkpoint.test_rounding import quantized, stored

SHAPE = (96, 256)
BF16, F32 = DIGITS["BF16"], DIGITS["F32"]
TORCH = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def drawn(seed, size):
    return np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32) * size


def low_rank(rank, size):
    rng = np.random.default_rng(rank)
    product = rng.normal(size=(SHAPE[0], rank)) @ rng.normal(size=(rank, SHAPE[1])) / np.sqrt(rank)
    return (product * 0.02 * size).astype(np.float32)


OLD = stored(drawn(1, 0.02), "BF16")
FINE = OLD + np.float32(1e-5)
WHOLE = stored(quantized(OLD, 8, SHAPE[1]), "BF16")
ADAPTER = {"certain": True, "bits": 0, "zeros": 0}
HIDDEN = {"rank": 0, "hidden": True}
ROUNDED = {"rank": 0, "zeros": 0, "hidden": False}
CHANGES = {
    "a copy": (OLD, OLD, BF16, {"equal": True}),
    "a copy in a shorter format": (FINE, stored(FINE, "BF16"), BF16, {"equal": True}),
    **{
        f"a merged adapter of rank {rank} in {form}": (
            OLD, stored(OLD + low_rank(rank, 0.1), form), DIGITS[form], ADAPTER | {"rank": rank},
        ) for form in ("BF16", "F32") for rank in (4, 16, 64)
    },
    "rank 4 through 8 bits": (OLD, quantized(OLD + low_rank(4, 0.1), 8, SHAPE[1]), F32, {"rank": 4, "bits": 8}),
    "rank 16 through 8 bits": (OLD, quantized(OLD + low_rank(16, 0.1), 8, SHAPE[1]), F32, {"rank": 16, "bits": 8}),
    "rank 16 below rounding": (OLD, stored(OLD + low_rank(16, 0.0005), "BF16"), BF16, HIDDEN),
    "rank 64 below rounding": (OLD, stored(OLD + low_rank(64, 0.0005), "BF16"), BF16, HIDDEN),
    "rank 64 of which rounding covers a part": (
        OLD, stored(OLD + low_rank(64, 0.01), "BF16"), BF16, {"rank": pytest.approx(32, abs=31), "certain": False},
    ),
    "rounded to 4 bits": (OLD, stored(quantized(OLD, 4, 128), "BF16"), BF16, ROUNDED | {"bits": 4}),
    "rounded to 8 bits": (OLD, stored(quantized(OLD, 8, 128), "BF16"), BF16, ROUNDED | {"bits": 8}),
    **{
        f"pruned by {share}": (
            OLD, np.where(np.abs(OLD) < np.quantile(np.abs(OLD), share), 0, OLD), BF16,
            {"equal": True, "size": 0, "zeros": pytest.approx(share, abs=0.02)},
        ) for share in (0.3, 0.5, 0.85)
    },
    "pruned and trained afterwards": (
        OLD, np.where(np.abs(OLD) < 0.01, 0, stored(OLD + drawn(3, 0.001), "BF16")), BF16,
        {"zeros": pytest.approx(0.38, abs=0.05), "equal": False, "size": pytest.approx(0.055, abs=0.045)},
    ),
    "trained in full": (OLD, stored(OLD + drawn(4, 0.001), "BF16"), BF16, {"rank": None, "bits": 0, "equal": False}),
    "a copy of a quantized base with an adapter": (
        WHOLE, stored(WHOLE + low_rank(4, 0.1), "BF16"), BF16, {"bits": 0, "rank": 4},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("base", "child", "form", "expected"), CHANGES.values(), ids=CHANGES)
def test_what_was_done_to_a_matrix_is_told(base, child, form, expected):
    change = measure_change(base, child, (F32 if base is FINE else BF16, form))
    assert {name: getattr(change, name) for name in expected} == expected


@pytest.mark.few(6)
@pytest.mark.parametrize("computed", TORCH)
@pytest.mark.parametrize("kept", TORCH)
@pytest.mark.parametrize("rank", [4, 8, 64])
def test_the_rank_of_a_merge_is_never_more_than_it_is_in_whatever_format_it_was_made(rank, kept, computed):
    """W plus a product of factors as training leaves them, computed in one format and added and stored in another."""
    for seed, size in itertools.product(range(3), (0.05, 0.2, 1.0)):
        generator = torch.Generator().manual_seed(seed)
        b, a = torch.randn(SHAPE[0], rank, generator=generator), torch.randn(rank, SHAPE[1], generator=generator)
        b *= torch.linspace(0.3, 1, rank)
        product = (b.to(TORCH[computed]) @ a.to(TORCH[computed])) * (0.02 * size / rank**0.5)
        child = (torch.tensor(OLD).to(TORCH[kept]) + product.to(TORCH[kept])).float().numpy()
        change = measure_change(OLD, child, (BF16, DIGITS[kept]))
        assert change.rank in (None, rank) or (change.rank < rank and not change.certain)
    assert change.rank == rank


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_numbers_that_are_not_finite_and_a_base_of_zeros_are_no_change(value):
    broken = OLD.copy()
    broken[3, 4] = value
    for pair in ((OLD, broken), (broken, OLD)):
        change = measure_change(*pair, (F32, F32))
        assert change is None or change.rank is None
    assert measure_change(np.zeros(SHAPE, np.float32), OLD, (F32, F32)) is None
