import numpy as np
import pytest
from scipy.stats import ortho_group

from hf_lineage.checking.source.opening import headers
from hf_lineage.errors import NothingToCompare
from hf_lineage.hub.reference import resolve
from hf_lineage.signature.units.token_rows import (
    SEEN,
    between,
    drawn_tokens,
    polar,
    seen_through,
    token_rows,
)
from tests.models import tiny_llama

RANDOM = np.random.default_rng(0)


def factor(found):
    """U (K, d)"""
    return found.rows @ found.root.times(np.eye(found.rows.shape[1]))


ROWS = RANDOM.standard_normal((200, 32)) * np.linspace(0.1, 3, 32)


def test_the_polar_factor_turns_with_the_stream_and_what_is_seen_stays():
    turn = ortho_group.rvs(32, random_state=0)
    one, other = polar(ROWS, 32), polar(ROWS @ turn.T, 32)
    assert np.allclose(factor(one).T @ factor(one), np.eye(32))
    assert np.allclose(factor(other), factor(one) @ turn.T)
    seen, through = between(one, other)
    units = RANDOM.standard_normal((5, 32))
    assert np.allclose(units @ seen.T, units @ turn.T @ through.T, atol=1e-5)


def test_fewer_tokens_than_coordinates_show_the_directions_that_they_span():
    found = polar(ROWS[:20], 32)
    assert found.root.rank == 20
    assert np.allclose(factor(found) @ factor(found).T, np.eye(20))


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1, 1e300])
def test_the_size_of_the_rows_does_not_matter(size):
    assert np.allclose(factor(polar(ROWS * size, 32)), factor(polar(ROWS, 32)))


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (np.ones((200, 32)), "span only 1 of the 32 directions"),
        (np.outer(RANDOM.standard_normal(200), RANDOM.standard_normal(32)), "span only 1 of the 32 directions"),
        (np.concatenate([ROWS[:1] * 1e30, ROWS]), "span only 1 of the 32 directions"),
        (ROWS * np.nan, "zero or not finite"),
        (np.concatenate([ROWS, [[np.inf] * 32]]), "zero or not finite"),
        (ROWS * 0, "zero or not finite"),
        (ROWS[:0], "zero or not finite"),
    ],
)
def test_rows_that_span_too_little_are_a_reason(rows, reason):
    with pytest.raises(NothingToCompare, match=reason):
        polar(rows, 32)


def test_a_stream_with_coordinates_that_are_never_used_is_seen_if_the_other_is_as_narrow():
    wide = np.concatenate([ROWS, np.zeros((200, 64))], axis=1)
    assert polar(wide, 32).root.rank == 32
    with pytest.raises(NothingToCompare):
        polar(wide, 96)


def test_tokens_are_drawn_in_runs_and_are_the_same_for_everybody():
    chosen = drawn_tokens(100_000, (512, 768))
    assert np.array_equal(chosen, drawn_tokens(100_000, (512, 768)))
    assert 2000 < len(chosen) < 2100
    assert (np.diff(chosen) > 1).sum() < 40
    assert np.array_equal(drawn_tokens(300, (64, 64)), np.arange(300))
    assert len(drawn_tokens(10**6, (16384, 64))) < 8300


def test_wide_streams_are_seen_through_fewer_random_sums():
    assert np.array_equal(seen_through(64), np.eye(64))
    through = seen_through(2000)
    assert through.shape == (SEEN, 2000)
    units = RANDOM.standard_normal((2, 2000)) / 2000**0.5
    assert abs(np.vecdot(*(units @ through.T)) - np.vecdot(*units)) < 0.3


def test_only_the_rows_that_are_asked_for_are_read(tmp_path):
    checkpoint = headers(resolve(str(tiny_llama(tmp_path / "model")))).checkpoint
    rows = token_rows(checkpoint, "model.embed_tokens.weight", np.array([7, 2, 3, 7]))
    whole = np.asarray(checkpoint.read("model.embed_tokens.weight"))
    assert np.array_equal(rows, whole[[7, 2, 3, 7]])
