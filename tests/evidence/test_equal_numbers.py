"""Equal numbers are tested exactly, whatever profile or grid independent models share; chance is subtracted."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from scipy.stats import binomtest

from hf_lineage.evidence.equal_numbers import Rows, compare_numbers
from hf_lineage.evidence.permutation import HALVES

SHAPE, DRAWS = (24, 16), 99


def model(seed, spread=1, form="bf16"):
    numbers = np.random.default_rng(seed).normal(size=(2, *SHAPE)) * spread
    if form == "integers":
        return np.clip(np.rint(numbers * 4), -127, 127).astype(np.float32)
    return numbers.astype(ml_dtypes.bfloat16 if form == "bf16" else ml_dtypes.float8_e4m3fn).astype(np.float32)


def compared(base, candidate, seed=0, first=DRAWS):
    rows = [Rows(n, a.size, a, b) for n, (a, b) in enumerate(zip(base, candidate, strict=True))]
    return compare_numbers(rows, first, seed)


PROFILES = {
    "alike": 1,
    "sorted": 1 / np.arange(1, SHAPE[1] + 1),
    "padded": np.where(np.arange(SHAPE[1]) < 8, 1.0, 2.0**-20),
    "principal axes": np.exp(-np.arange(SHAPE[1]) / 3),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("form", ["bf16", "integers", "fp8"])
@pytest.mark.parametrize("profile", PROFILES)
def test_p_of_independent_models_is_uniform_or_larger(profile, form):
    found = [compared(*(model(2 * seed + of, PROFILES[profile], form) for of in (0, 1)), seed) for seed in range(40)]
    assert binomtest(sum(one.p_value <= 0.05 for one in found), 40, 0.05, alternative="greater").pvalue > 0.01


def test_permutations_alone_are_no_test_of_sorted_coordinates():
    pairs = [[model(2 * seed + of, PROFILES["sorted"], "integers") for of in (0, 1)] for seed in range(40)]
    found = [compared(*pair, seed) for seed, pair in enumerate(pairs)]
    assert np.mean([one.permuted.p_value <= 0.05 for one in found]) > 0.5


def test_the_table_gives_what_moving_the_coordinates_gives():
    base, candidate = (model(seed, form="integers")[:, :, :8].astype(np.float64) for seed in (0, 1))
    found = compared(base, candidate)
    assert found.permuted.observed == found.flipped.observed

    def energy(moved):
        shares = [(b[(a == b) & (b != 0)] ** 2).sum() / (b**2).sum() for a, b in zip(moved, candidate, strict=True)]
        return float(np.mean(shares))

    assert found.permuted.observed == pytest.approx(energy(base))
    signs = [energy(base * np.array(one)) for one in itertools.product((1, -1), repeat=8)]
    assert np.abs(found.flipped.scores[:, None] - np.array(signs)).min(axis=1).max() < 1e-9
    exact = np.mean(np.array(signs) >= energy(base) - 1e-12)
    assert compared(base, candidate, first=1999).flipped.p_value == pytest.approx(exact, abs=0.03)
    orders = np.random.default_rng(2).permuted(np.tile(np.arange(8), (4000, 1)), axis=1)
    exact = np.mean([energy(base[:, :, order]) >= energy(base) - 1e-12 for order in orders])
    assert compared(base, candidate, first=1999).permuted.p_value == pytest.approx(exact, abs=0.04)


def test_what_chance_reaches_is_subtracted_and_zeros_are_no_numbers():
    base, other = model(0, form="integers"), model(1, form="integers")
    mixed = np.where(np.random.default_rng(3).random(base.shape) < 0.5, base, other)
    chance, half, whole = (compared(base, one, first=999) for one in (other, mixed, base))
    assert chance.energy.mean() > 0.02
    assert chance.share < 0.01
    assert half.share < half.energy.mean() < 0.65
    assert whole.share == pytest.approx(1)
    zeros = compared(0 * base, 0 * base)
    assert (zeros.p_value, zeros.share) == (1, 0)
    assert compared(base, np.where(base > 0, base, -0.0)).equal.mean() == pytest.approx((base > 0).mean())


def test_an_enlarged_matrix_counts_no_more_and_few_coordinates_say_nothing():
    base, other = model(0), model(1)
    rows = [Rows(0, 1, base[0], base[0]), Rows(0, 1, base[1], 1024 * other[1])]
    assert compare_numbers(rows, DRAWS, 0).energy == pytest.approx(0.5, abs=0.01)
    assert compared(base[:, :, :7], base[:, :, :7]) is None
    assert compare_numbers([], DRAWS, 0) is None
    assert set(HALVES) == {"permutations", "signs"}
