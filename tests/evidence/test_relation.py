"""How a model was made is put together from the changes of its matrices, in words and for programs."""

import numpy as np
import pytest

from hf_lineage.evidence.change import Change
from hf_lineage.evidence.relation import Derivation, Means, align

EQUAL = Change(0.0, equal=True, rank=0)
FULL = Change(0.05)
LOW = Change(0.1, rank=8)
ROUNDED = Change(0.01, bits=8, rank=0)
HIDDEN = Change(0.001, rank=0, hidden=True)
LEAST = Change(0.01, rank=5, certain=False)
TOLD = [
    ([EQUAL, EQUAL], ["unchanged"], "weights unchanged"),
    ([FULL] * 2, ["dense"], "2 of 2 matrices changed in full (by 5.0% of their size), as by fine-tuning or a merge"),
    ([LOW, EQUAL, LOW], ["low_rank"], "a change of rank 8 in 2 of 3 matrices, as a merged LoRA adapter leaves it"),
    ([LEAST], ["low_rank"], "a change of rank at least 5 in 1 of 1 matrices (rounding hides the rest)"),
    ([ROUNDED, ROUNDED, EQUAL], ["quantized"], "quantized to 8 bits"),
    ([Change(0.0, equal=True, zeros=0.5)], ["pruned"], "pruned (50% of the weights set to zero)"),
    ([HIDDEN, EQUAL], ["unclear"], "1 of 2 matrices changed in a way that is unclear"),
    ([FULL, LOW], ["unclear"], "2 of 2 matrices changed in a way that is unclear"),
]


@pytest.mark.parametrize(("changes", "means", "words"), TOLD)
def test_what_was_done_is_told(changes, means, words):
    derivation = Derivation(tuple(changes))
    assert [one.value for one in derivation.means] == means
    assert derivation.words == words


def test_several_things_may_have_been_done_and_beside_an_unknown_grid_no_other():
    derivation = Derivation((Change(0.1, bits=8, rank=16),) * 2, reordered=True)
    assert derivation.means == (Means.REORDERED, Means.LOW_RANK, Means.QUANTIZED)
    assert derivation.words.endswith("as a merged LoRA adapter leaves it, then quantized to 8 bits")
    assert (derivation.bits, derivation.rank) == (8, 16)
    pruned = Derivation((Change(0.03, zeros=0.6),) * 2)
    assert pruned.means == (Means.PRUNED, Means.DENSE)
    assert "3.0%" in pruned.words
    derivation = Derivation((FULL, FULL), stored_bits=4.5)
    assert derivation.means == (Means.QUANTIZED, Means.UNCLEAR)
    assert derivation.words == (
        "quantized (stored with 4.5 bits a weight), whether or how 2 of 2 matrices were changed before is unclear"
    )


ROWS = np.random.default_rng(0).normal(size=(60, 40)).astype(np.float32)
ORDER = np.random.default_rng(1).permutation(60)
ALIGNED = {
    "in their places": (ROWS[10:20] + np.float32(0.1), range(10, 20), ROWS[10:20], (False, False)),
    "reordered and rescaled": (3 * ROWS[ORDER], slice(None), 3 * ROWS[ORDER], (True, True)),
    "pruned": (np.where(np.abs(ROWS) < 0.7, 0, ROWS), slice(None), ROWS, (False, False)),
}


@pytest.mark.parametrize(("rows", "places", "expected", "moved"), ALIGNED.values(), ids=ALIGNED)
def test_units_are_found_again_in_their_places_or_in_others(rows, places, expected, moved):
    aligned = align(ROWS, rows, places)
    assert (aligned.reordered, aligned.rescaled) == moved
    assert np.allclose(aligned.base, expected, rtol=1e-5)


def test_units_of_another_model_copies_of_one_unit_and_zeros_are_not_found():
    other = np.random.default_rng(2).normal(size=(30, 40)).astype(np.float32)
    assert align(ROWS, other, range(30)) is None
    assert align(ROWS, np.repeat(ROWS[:1], 30, axis=0), range(30)) is None
    assert align(np.zeros_like(ROWS), ROWS) is None
