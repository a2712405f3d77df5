"""What was done to a matrix is told from its difference, and nothing is told that rounding can hide."""

import itertools

import numpy as np
import pytest
import torch

from hf_lineage.checkpoint.rounding import DIGITS
from hf_lineage.evidence.change import dependents, measure_change, residual, solved
from tests.checkpoint.test_rounding import quantized, stored

SHAPE = (96, 256)

BF16, F32 = DIGITS["BF16"], DIGITS["F32"]


@pytest.fixture(scope="module")
def base():
    return stored(np.random.default_rng(1).normal(size=SHAPE).astype(np.float32) * 0.02, "BF16")


def low_rank(rank, size):
    rng = np.random.default_rng(rank)
    product = rng.normal(size=(SHAPE[0], rank)) @ rng.normal(size=(rank, SHAPE[1])) / np.sqrt(rank)
    return (product * 0.02 * size).astype(np.float32)


def test_a_copy_is_equal_in_whatever_format_it_is_stored(base):
    assert measure_change(base, base, (BF16, BF16)).equal
    fine = base + np.float32(1e-5)
    assert measure_change(fine, stored(fine, "BF16"), (F32, BF16)).equal


@pytest.mark.parametrize("dtype", ["BF16", "F32"])
@pytest.mark.parametrize("rank", [4, 16, 64])
def test_a_merged_adapter_shows_its_rank(base, rank, dtype):
    change = measure_change(base, stored(base + low_rank(rank, 0.1), dtype), (BF16, DIGITS[dtype]))
    assert (change.rank, change.certain, change.bits, change.zeros) == (rank, True, 0, 0)


@pytest.mark.parametrize("rank", [4, 16])
def test_an_adapter_shows_through_eight_bits(base, rank):
    change = measure_change(base, quantized(base + low_rank(rank, 0.1), 8, SHAPE[1]), (BF16, F32))
    assert (change.rank, change.bits) == (rank, 8)


TORCH = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def merged(base, rank, size, kept, computed, seed):
    """W plus a product of factors as training leaves them, computed in one format and added and stored in another."""
    generator = torch.Generator().manual_seed(seed)
    b, a = torch.randn(SHAPE[0], rank, generator=generator), torch.randn(rank, SHAPE[1], generator=generator)
    b *= torch.linspace(0.3, 1, rank)
    product = (b.to(TORCH[computed]) @ a.to(TORCH[computed])) * (0.02 * size / rank**0.5)
    return (torch.tensor(base).to(TORCH[kept]) + product.to(TORCH[kept])).float().numpy()


@pytest.mark.few(6)
@pytest.mark.parametrize("computed", TORCH)
@pytest.mark.parametrize("kept", TORCH)
@pytest.mark.parametrize("rank", [4, 8, 64])
def test_the_rank_of_a_merge_is_never_more_than_it_is_in_whatever_format_it_was_made(base, rank, kept, computed):
    for seed, size in itertools.product(range(3), (0.05, 0.2, 1.0)):
        child = merged(base, rank, size, kept, computed, seed)
        change = measure_change(base, child, (BF16, DIGITS[kept]))
        assert change.rank in (None, rank) or (change.rank < rank and not change.certain)
    assert change.rank == rank


def test_directions_that_rounding_covers_make_the_rank_a_least_one(base):
    change = measure_change(base, stored(base + low_rank(64, 0.01), "BF16"), (BF16, BF16))
    assert change.rank is not None
    assert 0 < change.rank < 64
    assert not change.certain


@pytest.mark.parametrize("rank", [16, 64])
def test_a_change_below_rounding_is_hidden_and_has_no_rank(base, rank):
    change = measure_change(base, stored(base + low_rank(rank, 0.0005), "BF16"), (BF16, BF16))
    assert (change.rank, change.hidden) == (0, True)


@pytest.mark.parametrize("bits", [4, 8])
def test_a_rounded_matrix_has_its_bits_and_nothing_else(base, bits):
    change = measure_change(base, stored(quantized(base, bits, 128), "BF16"), (BF16, BF16))
    assert (change.bits, change.rank, change.zeros, change.hidden) == (bits, 0, 0, False)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.85])
def test_pruning_shows_its_share_and_that_the_rest_was_kept(base, share):
    pruned = np.where(np.abs(base) < np.quantile(np.abs(base), share), 0, base)
    change = measure_change(base, pruned, (BF16, BF16))
    assert change.zeros == pytest.approx(share, abs=0.02)
    assert change.equal
    assert change.size == 0


def test_a_pruned_matrix_that_was_trained_afterwards_is_not_equal(base):
    moved = np.random.default_rng(3).normal(size=SHAPE).astype(np.float32) * 0.001
    change = measure_change(base, np.where(np.abs(base) < 0.01, 0, stored(base + moved, "BF16")), (BF16, BF16))
    assert change.zeros > 0.3
    assert not change.equal
    assert 0.01 < change.size < 0.1


def test_fine_tuning_has_no_low_rank(base):
    moved = np.random.default_rng(4).normal(size=SHAPE).astype(np.float32) * 0.001
    change = measure_change(base, stored(base + moved, "BF16"), (BF16, BF16))
    assert (change.rank, change.bits, change.equal) == (None, 0, False)


def test_a_quantized_base_does_not_make_a_copy_quantized(base):
    whole = stored(quantized(base, 8, SHAPE[1]), "BF16")
    change = measure_change(whole, stored(whole + low_rank(4, 0.1), "BF16"), (BF16, BF16))
    assert (change.bits, change.rank) == (0, 4)


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_numbers_that_are_not_finite_are_no_change(base, value):
    broken = base.copy()
    broken[3, 4] = value
    for pair in ((base, broken), (broken, base)):
        change = measure_change(*pair, (F32, F32))
        assert change is None or change.rank is None


def test_a_base_of_zeros_is_no_change(base):
    assert measure_change(np.zeros(SHAPE, np.float32), base, (F32, F32)) is None


RANDOM = np.random.default_rng(0)

BASE = RANDOM.standard_normal(500)


def near(size=0.1):
    """A model that differs from the base a little."""
    return BASE + size * RANDOM.standard_normal(500)


def gram(*models):
    """The inner products of the first one and of all differences from it, the merge last."""
    first, *others = models
    rows = np.stack([first, *(one - first for one in others)])
    return rows @ rows.T


@pytest.mark.parametrize("size", [0.5, 0.01, 1e-3])
def test_the_weights_of_an_exact_combination_come_back_and_nothing_is_left(size):
    a, b, c = near(size), near(size), near(size)
    products = gram(a, b, c, 0.5 * a + 0.4 * b + 0.1 * c)
    assert solved(products) == pytest.approx([0.5, 0.4, 0.1], abs=1e-9)
    assert residual(products, solved(products)) < 1e-12
    assert dependents(products) == []


def test_parents_that_are_the_same_are_named_and_the_others_keep_their_weights():
    a, b = near(), near()
    products = gram(a, b, a, 0.3 * a + 0.7 * b)
    assert dependents(products) == [0, 2]
    assert solved(products)[1] == pytest.approx(0.7)
    assert dependents(gram(a, a, a)) == [0, 1]


def test_a_parent_on_the_line_between_two_others_cannot_be_told_from_them():
    a, b = near(), near()
    assert dependents(gram(a, b, (a + b) / 2, a)) == [0, 1, 2]
