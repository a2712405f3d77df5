"""The exact test of an adapter: valid under independence, blind to the factors, and powerful where there is a trace."""

import itertools

import numpy as np
import pytest
from scipy.stats import kstest

from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.verdict import Code, ExitCode
from hf_lineage.lora import gradient_alignment as adapter_trace
from hf_lineage.lora.adjacent_matrices import block, product_rows
from hf_lineage.lora.gradient_alignment import FIRST, VERIFIED, Trace, judge_trace, measure_trace, trace

COORDINATES, UNITS, DIMENSIONS = "residual coordinates", "hidden units", "dimensions of value heads"
CLEAR = 9.0
"""A statistic that lies 29 standard deviations above those of `measured`."""
PERMUTED = [lambda rows, order=order: rows[list(order)] for order in itertools.permutations(range(6))]
FLIPS = [lambda rows, signs=signs: rows * np.array(signs)[:, None] for signs in itertools.product((1, -1), repeat=6)]


def factors(rows=40, columns=24, rank=4, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, rank)).astype(np.float32), random.normal(size=(rank, columns)).astype(np.float32)


def rows_of(random, n, q):
    """Rows of very unlike sizes, and a few directions that dominate: as far from a normal law as weights may be."""
    return (random.standard_t(2, size=(n, 1)) * random.normal(size=(n, q)) * 2.0 ** -np.arange(q)).astype(np.float32)


def independent_blocks(random, layers=3):
    """Blocks of an adapter and of a base that know nothing of each other; coordinates keep their sizes over layers."""
    size, other_size = (np.exp(random.normal(size=(32, 1))) for _ in range(2))
    blocks = []
    for layer in range(layers):
        up = rows_of(random, 48, 3)[None], rows_of(random, 48, 6).T[None]
        value = (np.stack([rows_of(random, 8, 3) for _ in range(2)]), np.stack([rows_of(random, 8, 6).T] * 2))
        down = (rows_of(random, 32, 3) * size)[None], (rows_of(random, 32, 6) * other_size).T[None]
        blocks += [block("up", layer, UNITS, *up), block("value", layer, DIMENSIONS, *value)]
        blocks += [block("down", layer, COORDINATES, *down)]
    return blocks


def test_independent_pairs_are_rejected_no_more_often_than_alpha_whatever_it_is():
    """With 400 pairs the expected numbers are 4, 20 and 80; more than `most` has a probability below one per cent.

    Of 99 permutations, the fewest that reach a level of one per cent.
    """
    random = np.random.default_rng(1)
    independent = [trace(independent_blocks(random), 99, seed) for seed in range(400)]
    for alpha, most in ((0.01, 10), (0.05, 32), (0.2, 101)):
        assert sum(one.p_value <= alpha for one in independent) <= most
        for role in ("up", "value", "down"):
            assert sum(one.p_of(role) <= alpha for one in independent) <= most
    p_values = np.sort([one.p_value for one in independent])
    steps = np.arange(1, len(p_values) + 1) / len(p_values)
    assert np.abs(p_values - steps).max() < 1.63 / np.sqrt(len(p_values))  # Kolmogorov and Smirnov at one per cent


def test_one_permutation_serves_all_layers_of_a_kind():
    """Layers that copy each other are one piece of evidence; permuted each by itself they would count as many."""
    random = np.random.default_rng(3)
    hits = 0
    for seed in range(200):
        written, through = rows_of(random, 24, 2)[None], rows_of(random, 24, 5).T[None]
        copies = [block("down", layer, COORDINATES, written, through) for layer in range(6)]
        one, six = trace(copies[:1], 99, seed), trace(copies, 99, seed)
        assert six.p_value == one.p_value
        hits += one.p_value <= 0.05
    assert hits <= 19


def test_a_trace_is_found_and_interim_analyses_cost_their_part():
    """The columns of a matrix of the base lean on the rows of the adapter."""
    rows, random = product_rows(*factors()), np.random.default_rng(0)
    leaning = random.normal(size=(6, rows.shape[1])) @ rows.T
    through = (leaning + 0.5 * np.std(leaning) * random.normal(size=leaning.shape)).astype(np.float32)
    blocks = [block("up", 0, UNITS, rows[None], through[None])]
    found = trace(blocks, 999, 0)
    assert (found.p_value, found.p_of("up")) == (0.001, 0.001)
    assert found.z_of_blocks.tolist() == [found.z_of("up")]
    assert found.z_of("up") > 5
    assert trace(blocks, 199, 0, analyses=2).p_value == 2 / 200


def test_a_seed_gives_the_same_numbers_and_rows_all_alike_show_nothing():
    blocks = independent_blocks(np.random.default_rng(4))
    first, again, other = (trace(blocks, 150, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.ratios, again.ratios)
    assert np.array_equal(first.ratios[0], other.ratios[0])
    assert not np.array_equal(first.ratios[1:], other.ratios[1:])
    for number in (np.nan, 1.0):
        one = block("up", 0, UNITS, np.full((1, 8, 2), number, np.float32), np.ones((1, 3, 8), np.float32))
        assert trace([one], 99, 0).p_value == 1


def power(directions, roles=("value",), alpha=0.01, analyses=1, size=0.0):
    ratios = np.ones((2, len(roles)))
    sizes = np.full(len(roles), size)
    return Trace(roles, (0,) * len(roles), ratios, np.array(directions), sizes, 0, analyses).power(alpha)


def test_power_grows_with_directions_and_falls_with_tests_and_moved_weights():
    few, many = power([2.0]), power([400.0])
    assert few < 0.5 < 0.99 < many
    assert power([16.0], alpha=0.001) < power([16.0])
    assert power([16.0], analyses=2) < power([16.0])
    assert power([16.0, 0.0], roles=("value", "up")) < power([16.0])
    assert (adapter_trace.LEAST["gate"], power([1e6], roles=("gate",))) == (0, pytest.approx(0.01))
    sizes = (0.05, 0.1, 0.15, 0.2, 0.3, 5.0, np.inf)
    powers = [power([16.0], size=size) for size in sizes]
    assert powers[0] == powers[1] > powers[2] > powers[3] > powers[4] == powers[5] == powers[6]
    assert powers[-1] == pytest.approx(0.01)


def measured(observed, directions=400.0, analyses=1, above=0, size=0.0):
    """A test of one matrix: permutations between 0 and 1, 999 for each analysis, some of which reach the statistic."""
    ratios = np.concatenate([[observed], np.full(above, observed), np.linspace(0, 1, 1000 * analyses - 1 - above)])
    return Trace(("value",), (0,), ratios[:, None], np.array([directions]), np.full(1, size), 0, analyses)


EFFECT = "the effect is {} standard deviations, and at least {} verify"
WEAK = {
    "p alone": (measured(CLEAR, directions=4.0, above=4), "p is 0.005, and at most 0.001 verifies"),
    "an effect less than predicted": (measured(6.0), EFFECT.format("19.0", "24.0")),
    "what chance may give where nothing is predicted": (measured(2.0, size=np.inf), EFFECT.format("5.2", "5.4")),
    "both": (measured(1.0, above=4), f"p is 0.006, and at most 0.001 verifies; {EFFECT.format('1.7', '24.0')}"),
}


def test_a_trace_verifies_unless_it_fails_either_half_of_the_rule_or_a_smaller_alpha():
    outcome = judge_trace(measured(CLEAR), Criteria())
    assert (outcome.code, outcome.word, outcome.verified) == (Code.ADAPTER, "VERIFIED", True)
    assert outcome.exit_code is ExitCode.VERIFIED
    assert outcome.reason == (
        "the adapter carries the trace of this base: it was trained on it or a near relative, or extracted from a "
        "difference to it"
    )
    for weak, doubts in WEAK.values():
        outcome = judge_trace(weak, Criteria())
        assert (outcome.code, outcome.word, outcome.verified) == (Code.WEAK, "RELATED", False)
        assert outcome.exit_code is ExitCode.UNDECIDED
        assert outcome.reason == f"the adapter shows a trace of this base, but a weak one: {doubts}"
    for accept, code in (("weak", ExitCode.VERIFIED), ("part", ExitCode.UNDECIDED), ("embedding", ExitCode.UNDECIDED)):
        outcome = judge_trace(measured(2.0), Criteria(accept=(accept,)))
        assert (outcome.exit_code, outcome.verified) == (code, False)
    one = measured(CLEAR, analyses=2)
    assert one.p_value == VERIFIED
    assert judge_trace(one, Criteria(alpha=0.001)).verified
    assert judge_trace(one, Criteria(alpha=0.0009)).word == "UNRELATED"
    least = adapter_trace.least_effect
    assert least(one, 0.0001) == least(one, 0.01) == one.predicted_effect
    hardly = measured(CLEAR, directions=1.0)
    assert least(hardly, 0.0001) > least(hardly, 0.001) == least(hardly, 0.01)


NO_TRACE = [
    (measured(0.5), "", "UNRELATED", "one trained on it would show it with a predicted probability above 0.99"),
    (measured(0.5, directions=4.0), "", "UNDECIDED", "only with a predicted probability of 0.53"),
    (measured(CLEAR), "loftq", "UNDECIDED", "the adapter started from loftq"),
]


def test_no_trace_is_unrelated_only_where_the_test_has_power():
    for one, start, word, reason in NO_TRACE:
        outcome = judge_trace(one, Criteria(), start)
        assert (outcome.word, outcome.verified, reason in outcome.reason) == (word, False, True)
    traces = [measured(observed, analyses=2) for observed in (CLEAR, 2.0, 0.5, 0.95)]
    traces.append(measured(0.5, directions=4.0, analyses=2))
    assert [adapter_trace.clear(judge_trace(one, Criteria())) for one in traces] == [True, False, True, False, False]


def leaning(by, seed=0):
    """A block of one direction in 24 rows, which lean by this much on the matrix that their gradient passed through."""
    random = np.random.default_rng(seed)
    written, through = random.normal(size=(2, 24))
    return block("up", 0, "hidden units", written[None, :, None], (by * written + through)[None, None], flips=True)


def test_as_many_permutations_are_drawn_as_leave_nothing_open_and_p_pays_for_it():
    several = (leaning(0.5, seed) for seed in range(2000))
    in_doubt = next(one for one in several if VERIFIED / 2 < trace([one], FIRST, 0).p_value <= 0.01)
    small, large, more = (measure_trace([one], Criteria()) for one in (leaning(5.0), leaning(0.0), in_doubt))
    twice = measure_trace([leaning(5.0)], Criteria(analyses=2))
    at_once = measure_trace([in_doubt], Criteria(permutations=20_000))
    assert (small.permutations, small.p_value) == (FIRST, 1 / (FIRST + 1))
    assert (large.permutations, large.p_value > 0.01, large.spent) == (FIRST, True, 0.0)
    assert (more.permutations, more.spent) == (adapter_trace.MOST, VERIFIED / 2)
    assert more.p_value == pytest.approx(more.p_of("up") + VERIFIED / 2)
    assert (twice.permutations, twice.p_value) == (2 * FIRST + 1, 1 / (FIRST + 1)), "as many more as two analyses cost"
    assert (at_once.permutations, at_once.spent) == (20_000, 0.0), "who asks for more at first gets them all at once"


@pytest.mark.long
def test_drawing_more_raises_no_rate():
    """Of 3,000 independent pairs at most alpha are RELATED, and at most a thousandth has a p that verifies.

    More than 45 and 9 of them have a probability of less than one in three hundred each.
    """
    criteria = Criteria()
    p_values = np.array([measure_trace([leaning(0.0, seed)], criteria).p_value for seed in range(3000)])
    assert np.sum(p_values <= 0.01) <= 45
    assert np.sum(p_values <= VERIFIED) <= 9


def exhaustive(written, through, elements, centre):
    """The p-value over all of some elements, each a function of rows.

    The statistic is as the formula says, for one group: means are removed after rows were moved or flipped.
    """
    through, values = through - through.mean(axis=1, keepdims=True), []
    for rows in (element(written) for element in elements):
        centred, alone = (rows - rows.mean(axis=0) * by for by in (1, centre))
        sizes = np.sum(alone**2, axis=1) @ np.sum(through**2, axis=0)
        values.append(np.sum((through @ centred) ** 2) - sizes)
    return np.mean(values >= values[0] - 1e-6 * np.abs(values[0]))


@pytest.mark.parametrize("seed", range(3))
def test_drawn_elements_give_the_p_of_all_of_them(monkeypatch, seed):
    """Six rows: all 720 permutations, all 64 flips, all 36 permutations within small and large ones."""
    monkeypatch.setattr(adapter_trace, "FLIPPED", 1)
    random = np.random.default_rng(seed)
    written = random.normal(size=(6, 2)) + 1
    written *= np.array([1, 4, 1.3, 3, 1.2, 5])[:, None] / np.linalg.norm(written, axis=1, keepdims=True)
    through = (random.normal(size=(4, 2)) @ written.T + 3 * random.normal(size=(4, 6))).astype(np.float32)
    parts = written[None].astype(np.float32), through[None]
    free, bound = (trace([block("up", 0, UNITS, *parts, flips=flips)], 8000, 0) for flips in (True, False))
    expected = [exhaustive(written, through, PERMUTED, 1), exhaustive(written, through, FLIPS, 0)]
    assert free.p_values == pytest.approx(expected, abs=0.02)
    kept = [element for element in PERMUTED if {*element(np.arange(6))[[0, 2, 4]]} == {0, 2, 4}]
    assert bound.p_values == pytest.approx([exhaustive(written, through, kept, 1)] * 2, abs=0.02)


@pytest.mark.parametrize("flips", [True, False], ids=["signs", "strata"])
def test_sorted_rows_of_independent_pairs_show_nothing(flips):
    random, sizes, pairs = np.random.default_rng(11), np.arange(1, 41)[:, None] ** (-1.0 if flips else -0.4), []
    for seed in range(200):
        written, through = ((random.normal(size=(40, q)) * sizes).astype(np.float32) for q in (3, 12))
        pairs.append(trace([block("down", 0, COORDINATES, written[None], through.T[None], flips=flips)], 99, seed))
    assert kstest([one.p_values[1] for one in pairs], "uniform").pvalue > 0.01
    assert np.mean([one.p_value <= 0.05 for one in pairs]) <= 0.1
    if flips:  # all permutations would show what is not there
        assert np.mean([one.p_values[0] <= 0.05 for one in pairs]) > 0.2


def test_rows_of_both_kinds_together_are_permuted_alike_and_then_flipped():
    """Up and gate have the same units, so that one permutation within strata serves both, and flips are added to it."""
    random = np.random.default_rng(0)
    up, gate = (random.normal(size=(1, 32, 3)).astype(np.float32) for _ in range(2))
    through = random.normal(size=(1, 5, 32)).astype(np.float32)
    flipping = trace([block("up", 0, UNITS, up, through, flips=True), block("gate", 0, UNITS, gate, through)], 50, 0)
    assert np.array_equal(flipping.ratios[:, 1], flipping.flipped[:, 1])
    assert np.allclose(flipping.ratios[0], flipping.flipped[0], atol=0.2)
    assert not np.allclose(flipping.ratios[1:, 0], flipping.flipped[1:, 0])
