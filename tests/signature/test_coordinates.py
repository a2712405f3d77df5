"""Coordinates that two models share: fitted to their units, or by the rows of their tokens."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ortho_group

from hf_lineage.errors import NothingToCompare
from hf_lineage.signature import coordinates as procrustes
from hf_lineage.signature.coordinates import between, check_span, fit_tokens, pool_units, prepare_rows, read_token_rows
from hf_lineage.signature.unit_rows import UnitRows
from hf_lineage.signature.unit_rows import cosines as unit_cosines
from tests.models import tiny_llama
from tests.signature.test_extract import opened

WIDTH = 24


def of_length_one(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def layer(seed, units=120, width=WIDTH):
    """Hidden units whose rows lie in some directions more than in others, as trained ones do."""
    random = np.random.default_rng(seed)
    inner, outer = random.standard_normal((2, units, width)) * np.linspace(0.3, 2, width)
    sizes = random.lognormal(sigma=0.5, size=(2, units))
    gate = np.zeros((units, 0), np.float32)
    return UnitRows(of_length_one(inner), of_length_one(outer), gate, sizes.prod(axis=0), sizes, float(units))


BASE = [layer(1), layer(2)]


def levelled(rows, inner, outer):
    """Units that read and write other rows, which are made of length one."""
    return replace(rows, inner=of_length_one(inner), outer=of_length_one(outer))


def turned(rows, turn):
    return replace(rows, inner=(rows.inner @ turn).astype(np.float32), outer=(rows.outer @ turn).astype(np.float32))


def reordered(rows, seed=3):
    return rows.select(np.random.default_rng(seed).permutation(len(rows.weight)))


def noisy(rows):
    noise = np.random.default_rng(0).standard_normal((2, *rows.inner.shape)) * 0.3 / np.sqrt(rows.inner.shape[1])
    return levelled(rows, rows.inner + noise[0], rows.outer + noise[1])


def flipped(rows):
    """What some units read and write with the other sign, which leaves what they do as it is where nothing is gated."""
    signs = np.random.default_rng(0).choice([-1, 1], (len(rows.weight), 1)).astype(np.float32)
    return replace(rows, inner=rows.inner * signs, outer=rows.outer * signs)


def share(base, candidate):
    """How many units of the candidate are found in the base."""
    seen, through = between(pool_units(base), pool_units(candidate))
    mine, other = (
        [levelled(rows, rows.inner @ matrix.T, rows.outer @ matrix.T) for rows in model]
        for model, matrix in ((base, seen), (candidate, through))
    )
    return np.mean([np.max([unit_cosines(rows, one).max(axis=1) for one in mine], axis=0) > 0.5 for rows in other])


ROTATION = ortho_group.rvs(WIDTH, random_state=0)
CHANGES = {
    "turned": lambda rows: turned(rows, ROTATION),
    "turned and reordered": lambda rows: reordered(turned(rows, ROTATION)),
    "with signs changed": lambda rows: flipped(turned(rows, ROTATION)),
    "changed a little": lambda rows: noisy(reordered(turned(rows, ROTATION))),
    "in a wider stream": lambda rows: reordered(turned(rows, ortho_group.rvs(32, random_state=1)[:WIDTH])),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_units_are_found_whatever_became_of_their_coordinates_and_their_order(change):
    assert share(BASE, [change(rows) for rows in BASE]) > 0.98


def test_the_turn_itself_is_found():
    seen, through = between(pool_units(BASE), pool_units([turned(rows, ROTATION) for rows in BASE]))
    assert np.allclose(through, seen @ ROTATION, atol=1e-4)
    assert np.linalg.norm(seen, 2) <= 1 + 1e-5


def test_units_of_a_stream_that_was_cut_are_found_by_what_is_left_of_them():
    cut = ROTATION[:, :16]
    assert share(BASE, [levelled(rows, rows.inner @ cut, rows.outer @ cut) for rows in BASE]) > 0.2
    assert share(BASE, [layer(seed, width=16) for seed in (3, 4)]) < 0.1


def test_layers_that_were_left_out_repeated_or_added_hide_no_others():
    turned_base = [turned(rows, ROTATION) for rows in BASE]
    assert share(BASE, [turned_base[1]]) > 0.98
    assert share(BASE, [turned_base[0], turned_base[0], turned_base[1]]) > 0.98
    assert 0.45 < share(BASE, [layer(7), turned_base[1]]) < 0.6


def test_units_that_all_write_much_the_same_are_not_those_of_another_model():
    def with_one_direction(rows):
        return levelled(rows, rows.inner + 4 * np.eye(WIDTH)[1], rows.outer + 4 * np.eye(WIDTH)[0])

    one, other = ([with_one_direction(layer(seed + number)) for number in range(2)] for seed in (1, 7))
    assert share(one, other) < 0.1
    assert share(one, [reordered(turned(rows, ROTATION)) for rows in one]) > 0.98


@pytest.mark.parametrize("seed", range(5))
def test_units_of_independent_models_are_not_found(seed):
    assert share(BASE, [layer(10 + seed), layer(20 + seed)]) < 0.1


def test_the_order_of_units_plays_no_part():
    candidate = [layer(3), layer(4)]
    _, through = between(pool_units(BASE), pool_units(candidate))
    moved = (pool_units([reordered(rows, seed) for rows in model]) for seed, model in ((5, BASE), (6, candidate)))
    _, again = between(*moved)
    assert np.allclose(through, again, atol=1e-2)


@pytest.mark.parametrize(("copied", "found"), [("everything", True), ("the strongest directions", False)])
def test_units_have_to_agree_beyond_the_directions_in_which_they_are_matched(monkeypatch, copied, found):
    """A forger copies what units read and write in the strongest directions, and keeps all else of another model."""
    monkeypatch.setattr(procrustes, "DIRECTIONS", 12)
    base, other = [strong(layer(seed)) for seed in (1, 2)], [strong(layer(seed)) for seed in (3, 4)]

    def forged(rows, own):
        strongest = np.arange(WIDTH) < 12
        inner, outer = (np.where(strongest, getattr(rows, side), getattr(own, side)) for side in ("inner", "outer"))
        return levelled(rows, inner, outer)

    parts = base if copied == "everything" else list(map(forged, base, other))
    candidate = pool_units([reordered(turned(rows, ROTATION)) for rows in parts])
    refused = pytest.raises(NothingToCompare, match="in the strongest directions of their stream alone")
    with contextlib.nullcontext() if found else refused:
        between(pool_units(base), candidate)


def strong(rows):
    """Units that lie mostly in the first twelve coordinates of their stream."""
    sizes = np.where(np.arange(WIDTH) < 12, 9, 1)
    return levelled(rows, rows.inner * sizes, rows.outer * sizes)


def test_a_wide_stream_in_which_hardly_any_units_find_each_other_is_not_searched_further(monkeypatch):
    monkeypatch.setattr(procrustes, "SCREENED_DIRECTIONS", 64)
    base, copy = ([layer(seed, 1000, 192) for seed in (1, 2)] for _ in range(2))
    procrustes.screen(pool_units(base), pool_units([reordered(noisy(rows)) for rows in copy]))
    with pytest.raises(NothingToCompare, match="of what hidden units write has a counterpart"):
        procrustes.screen(pool_units(base), pool_units([layer(seed, 1000, 192) for seed in (3, 4)]))


def test_a_few_units_fit_anything_and_units_that_are_all_alike_nothing_which_are_reasons():
    with pytest.raises(NothingToCompare, match="too few hidden units to match"):
        between(pool_units([layer(1, units=90)]), pool_units([layer(2, units=90)]))
    rows = replace(BASE[0], inner=BASE[0].inner[:1].repeat(120, 0), outer=BASE[0].outer[:1].repeat(120, 0))
    with pytest.raises(NothingToCompare, match="too few different hidden units"):
        between(pool_units(BASE), pool_units([rows, rows]))


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


def fitted_cosines(base_rows, rows, base_units, units):
    """The cosines of units that correspond, after both are seen."""
    seen, through = fitted(base_rows, rows)
    return np.vecdot(of_length_one(base_units @ seen.T), of_length_one(units @ through.T))


def test_an_orthogonal_change_of_either_model_changes_nothing():
    other = ROWS + 0.1 * ROWS.std() * RANDOM.standard_normal(ROWS.shape).astype(np.float32)
    plain = fitted_cosines(ROWS, other, UNITS, UNITS)
    assert np.allclose(fitted_cosines(ROWS, other @ TURN.T, UNITS, UNITS @ TURN.T), plain, atol=1e-4)
    assert np.allclose(fitted_cosines(ROWS @ TURN.T, other, UNITS @ TURN.T, UNITS), plain, atol=1e-4)


@pytest.mark.parametrize(("kept", "least"), [(24, 0.8), (16, 0.6)])
def test_units_of_a_narrowed_stream_are_seen_from_either_side(kept, least):
    narrow = slice(32 - kept, 32)
    assert fitted_cosines(ROWS, ROWS[:, narrow], UNITS, UNITS[:, narrow]).mean() > least
    assert fitted_cosines(ROWS[:, narrow], ROWS, UNITS[:, narrow], UNITS).mean() > least


def test_independent_rows_show_units_at_chance_level():
    rows = RANDOM.standard_normal((200, 32)).astype(np.float32)
    seen, through = fitted(ROWS, rows)
    product = of_length_one(UNITS @ seen.T) @ of_length_one(UNITS @ through.T).T
    assert product.std() == pytest.approx(32**-0.5, rel=0.15)


@pytest.mark.parametrize("enlarged", [0, 20])
def test_units_of_a_turned_stream_are_seen_as_they_were_also_if_a_few_rows_were_enlarged(enlarged):
    rows = ROWS @ TURN.T * np.where(np.arange(200) < enlarged, 1000, 1).astype(np.float32)[:, None]
    assert fitted_cosines(ROWS, rows, UNITS, UNITS @ TURN.T).min() > 0.99


def test_rows_that_span_too_little_are_refused_on_either_side_of_the_fit():
    few = only_prepared(np.concatenate([ROWS[:8]] * 25))
    for wide, narrow in ((few, prepared(ROWS)), (only_prepared(np.ones((200, 32))), prepared(ROWS))):
        with pytest.raises(NothingToCompare, match="span only about"):
            fit_tokens(wide, narrow)


@pytest.mark.parametrize("size", [1e-30, 1, 1e30])
def test_the_size_of_the_rows_does_not_matter(size):
    assert np.allclose(prepared(ROWS * np.float32(size)), prepared(ROWS), atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (np.ones((200, 32)), "span only about 0 of the 32 directions"),
        (np.outer(RANDOM.standard_normal(200), RANDOM.standard_normal(32)), "span only about 1 of the 32 directions"),
        (np.concatenate([ROWS[:8]] * 25), r"span only about \d of the 32 directions"),
        (ROWS * np.nan, "zero or not finite"),
        (np.concatenate([ROWS, [[np.inf] * 32]]), "zero or not finite"),
        (ROWS * 0, "zero or not finite"),
        (ROWS[:0], "zero or not finite"),
    ],
)
def test_rows_that_span_too_little_are_a_reason(rows, reason):
    with pytest.raises(NothingToCompare, match=reason):
        prepared(rows.astype(np.float32))


def test_a_stream_with_coordinates_that_are_never_used_is_seen_if_the_other_is_as_narrow():
    wide = np.concatenate([ROWS, np.zeros((200, 64), np.float32)], axis=1)
    assert prepared(wide, 32).shape[1] == 96
    with pytest.raises(NothingToCompare):
        prepared(wide, 96)


def test_only_the_rows_that_are_asked_for_are_read(tmp_path):
    checkpoint, _ = opened(tiny_llama(tmp_path / "model"))
    rows = read_token_rows(checkpoint, "model.embed_tokens.weight", np.array([7, 2, 3, 7]))
    whole = np.asarray(checkpoint.read("model.embed_tokens.weight"))
    assert np.array_equal(rows, whole[[7, 2, 3, 7]])
