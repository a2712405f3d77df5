"""Token fit: coordinates that two models share by the rows of their tokens, and the rows that are refused."""

import numpy as np
import pytest
from scipy.stats import ortho_group

from hf_lineage.errors import NothingToCompare
from hf_lineage.signature.coordinates import check_span, fit_tokens, prepare_rows, read_token_rows
from tests.models import tiny_llama
from tests.signature.test_extract import opened
from tests.unit_rows import unit

RANDOM = np.random.default_rng(0)
ROWS = (RANDOM.standard_normal((200, 32)) * np.linspace(0.3, 3, 32) + 1).astype(np.float32)
TURN = ortho_group.rvs(32, random_state=0).astype(np.float32)
UNITS = RANDOM.standard_normal((50, 32)).astype(np.float32)


def only_prepared(rows):
    rows = np.array(rows, np.float32)
    prepare_rows(rows)
    return rows


def prepared(rows, narrower=32):
    rows = only_prepared(rows)
    check_span(rows, narrower)
    return rows


def fitted(base_rows, rows):
    """What units of either stream are multiplied with, to be seen alike."""
    if base_rows.shape[1] < rows.shape[1]:
        return fitted(rows, base_rows)[::-1]
    return fit_tokens(*(prepared(one, rows.shape[1]) for one in (base_rows, rows)))


def cosines(base_rows, rows, base_units, units):
    """The cosines of units that correspond, after both are seen."""
    seen, through = fitted(base_rows, rows)
    return np.vecdot(unit(base_units @ seen.T), unit(units @ through.T))


def test_an_orthogonal_change_changes_nothing_and_independent_rows_are_at_chance():
    other = ROWS + 0.1 * ROWS.std() * RANDOM.standard_normal(ROWS.shape).astype(np.float32)
    plain = cosines(ROWS, other, UNITS, UNITS)
    assert np.allclose(cosines(ROWS, other @ TURN.T, UNITS, UNITS @ TURN.T), plain, atol=1e-4)
    assert np.allclose(cosines(ROWS @ TURN.T, other, UNITS @ TURN.T, UNITS), plain, atol=1e-4)
    rows = RANDOM.standard_normal((200, 32)).astype(np.float32)
    seen, through = fitted(ROWS, rows)
    product = unit(UNITS @ seen.T) @ unit(UNITS @ through.T).T
    assert product.std() == pytest.approx(32**-0.5, rel=0.15)


def test_units_of_a_narrowed_or_turned_stream_are_seen_also_if_rows_were_enlarged():
    for kept, least in ((24, 0.8), (16, 0.6)):
        narrow = slice(32 - kept, 32)
        assert cosines(ROWS, ROWS[:, narrow], UNITS, UNITS[:, narrow]).mean() > least
        assert cosines(ROWS[:, narrow], ROWS, UNITS[:, narrow], UNITS).mean() > least
    for enlarged in (0, 20):
        rows = ROWS @ TURN.T * np.where(np.arange(200) < enlarged, 1000, 1).astype(np.float32)[:, None]
        assert cosines(ROWS, rows, UNITS, UNITS @ TURN.T).min() > 0.99


def test_rows_that_span_too_little_are_refused_whatever_their_size():
    line = np.outer(RANDOM.standard_normal(200), RANDOM.standard_normal(32))
    for rows, reason in (
        (np.ones((200, 32)), "span only about 0 of the 32 directions"),
        (line, "span only about 1 of the 32 directions"),
        (np.concatenate([ROWS[:8]] * 25), r"span only about \d of the 32 directions"),
        (ROWS * np.nan, "zero or not finite"),
        (np.concatenate([ROWS, [[np.inf] * 32]]), "zero or not finite"),
        (ROWS * 0, "zero or not finite"),
        (ROWS[:0], "zero or not finite"),
    ):
        with pytest.raises(NothingToCompare, match=reason):
            prepared(rows.astype(np.float32))
    few = only_prepared(np.concatenate([ROWS[:8]] * 25))
    for wide, narrow in ((few, prepared(ROWS)), (only_prepared(np.ones((200, 32))), prepared(ROWS))):
        with pytest.raises(NothingToCompare, match="span only about"):
            fit_tokens(wide, narrow)
    for size in (1e-30, 1, 1e30):
        assert np.allclose(prepared(ROWS * np.float32(size)), prepared(ROWS), atol=1e-5)
    wide = np.concatenate([ROWS, np.zeros((200, 64), np.float32)], axis=1)
    assert prepared(wide, 32).shape[1] == 96
    with pytest.raises(NothingToCompare):
        prepared(wide, 96)


def test_only_the_rows_that_are_asked_for_are_read(tmp_path):
    checkpoint, _ = opened(tiny_llama(tmp_path / "model"))
    rows = read_token_rows(checkpoint, "model.embed_tokens.weight", np.array([7, 2, 3, 7]))
    whole = np.asarray(checkpoint.read("model.embed_tokens.weight"))
    assert np.array_equal(rows, whole[[7, 2, 3, 7]])
