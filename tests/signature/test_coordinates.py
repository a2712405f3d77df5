import contextlib
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ortho_group

from hf_lineage.errors import NothingToCompare
from hf_lineage.signature import coordinates as procrustes
from hf_lineage.signature.coordinates import between, pool_units
from hf_lineage.signature.unit_rows import UnitRows, cosines

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
    return np.mean([np.max([cosines(rows, one).max(axis=1) for one in mine], axis=0) > 0.5 for rows in other])


TURN = ortho_group.rvs(WIDTH, random_state=0)
CHANGES = {
    "turned": lambda rows: turned(rows, TURN),
    "turned and reordered": lambda rows: reordered(turned(rows, TURN)),
    "with signs changed": lambda rows: flipped(turned(rows, TURN)),
    "changed a little": lambda rows: noisy(reordered(turned(rows, TURN))),
    "in a wider stream": lambda rows: reordered(turned(rows, ortho_group.rvs(32, random_state=1)[:WIDTH])),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_units_are_found_whatever_became_of_their_coordinates_and_their_order(change):
    assert share(BASE, [change(rows) for rows in BASE]) > 0.98


def test_the_turn_itself_is_found_in_any_order_and_independent_units_are_not():
    seen, through = between(pool_units(BASE), pool_units([turned(rows, TURN) for rows in BASE]))
    assert np.allclose(through, seen @ TURN, atol=1e-4)
    assert np.linalg.norm(seen, 2) <= 1 + 1e-5
    for seed in range(5):
        assert share(BASE, [layer(10 + seed), layer(20 + seed)]) < 0.1
    candidate = [layer(3), layer(4)]
    _, through = between(pool_units(BASE), pool_units(candidate))
    moved = (pool_units([reordered(rows, seed) for rows in model]) for seed, model in ((5, BASE), (6, candidate)))
    _, again = between(*moved)
    assert np.allclose(through, again, atol=1e-2)


def test_units_are_found_by_what_is_left_of_a_cut_stream_and_other_layers_hide_none():
    cut = TURN[:, :16]
    assert share(BASE, [levelled(rows, rows.inner @ cut, rows.outer @ cut) for rows in BASE]) > 0.2
    assert share(BASE, [layer(seed, width=16) for seed in (3, 4)]) < 0.1
    turned_base = [turned(rows, TURN) for rows in BASE]
    assert share(BASE, [turned_base[1]]) > 0.98
    assert share(BASE, [turned_base[0], turned_base[0], turned_base[1]]) > 0.98
    assert 0.45 < share(BASE, [layer(7), turned_base[1]]) < 0.6


def test_units_that_all_write_much_the_same_are_not_those_of_another_model():
    def with_one_direction(rows):
        return levelled(rows, rows.inner + 4 * np.eye(WIDTH)[1], rows.outer + 4 * np.eye(WIDTH)[0])

    one, other = ([with_one_direction(layer(seed + number)) for number in range(2)] for seed in (1, 7))
    assert share(one, other) < 0.1
    assert share(one, [reordered(turned(rows, TURN)) for rows in one]) > 0.98


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
    candidate = pool_units([reordered(turned(rows, TURN)) for rows in parts])
    refused = pytest.raises(NothingToCompare, match="in the strongest directions of their stream alone")
    with contextlib.nullcontext() if found else refused:
        between(pool_units(base), candidate)


def strong(rows):
    """Units that lie mostly in the first twelve coordinates of their stream."""
    sizes = np.where(np.arange(WIDTH) < 12, 9, 1)
    return levelled(rows, rows.inner * sizes, rows.outer * sizes)


def test_few_or_equal_units_and_a_wide_stream_where_hardly_any_are_found_are_reasons(monkeypatch):
    monkeypatch.setattr(procrustes, "SCREENED_DIRECTIONS", 64)
    base, copy = ([layer(seed, 1000, 192) for seed in (1, 2)] for _ in range(2))
    procrustes.screen(pool_units(base), pool_units([reordered(noisy(rows)) for rows in copy]))
    with pytest.raises(NothingToCompare, match="of what hidden units write has a counterpart"):
        procrustes.screen(pool_units(base), pool_units([layer(seed, 1000, 192) for seed in (3, 4)]))
    with pytest.raises(NothingToCompare, match="too few hidden units to match"):
        between(pool_units([layer(1, units=90)]), pool_units([layer(2, units=90)]))
    rows = replace(BASE[0], inner=BASE[0].inner[:1].repeat(120, 0), outer=BASE[0].outer[:1].repeat(120, 0))
    with pytest.raises(NothingToCompare, match="too few different hidden units"):
        between(pool_units(BASE), pool_units([rows, rows]))
