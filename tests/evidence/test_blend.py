"""What the matrices show of a parent: a blend, nothing of siblings, descendants and checkpoints."""

import numpy as np
import pytest

from hf_lineage.checkpoint.rounding import DIGITS, round_digits, spacing
from hf_lineage.evidence.merge import BlendPlace, StoredMatrix, blend_of, inner_products

BF16 = DIGITS["BF16"]
LAYERS, SHAPE = 3, (24, 128)
RANDOM = np.random.default_rng(0)


def drawn(size=1.0):
    return size * RANDOM.standard_normal((LAYERS, *SHAPE))


def stored(numbers):
    return round_digits(np.asarray(numbers, np.float32), BF16)


BASE = stored(drawn())


def child(*steps, of=BASE):
    return stored(of + sum(steps))


def blend(parents, model, step=None):
    matrices = []
    for layer, own in enumerate(model):
        format_of = StoredMatrix(own, 0 if step else BF16, spacing(own, BF16), None if step is None else step + 0 * own)
        stored_parents = [*enumerate(StoredMatrix(one[layer]) for one in parents)]
        matrices.append(inner_products(layer, "mlp", stored_parents, format_of))
    return blend_of([one for one in matrices if one], len(parents), LAYERS)


STEP = drawn(0.1)
B = child(STEP)
RIO = stored(0.57 * B + 0.43 * BASE)
TUNED = child(drawn(0.02), of=RIO)


def test_a_blend_has_the_weights_it_was_made_with_and_what_was_trained_after_is_left():
    found = blend([BASE, B], RIO)
    assert [share.value for share in found.shares.parents] == pytest.approx([0.43, 0.57], abs=1e-3)
    assert found.places == (BlendPlace.BLEND, BlendPlace.BLEND)
    assert found.pure
    assert found.remainder == pytest.approx(1, abs=0.1)
    assert found.explained > 0.999
    trained = blend([BASE, B], TUNED)
    assert not trained.pure
    assert trained.remainder > 3


COMMON = drawn(0.07)
SIBLING, OTHER = (child(COMMON, drawn(0.07)) for _ in range(2))
C = child(drawn(0.1))
THREE = stored(0.4 * BASE + 0.35 * B + 0.25 * C)
PLACES = {
    "each of three parents": ([BASE, B, C], THREE, {"blend"}),
    "two of three parents": ([BASE, B], THREE, {"aside"}),
    "a parent of a blend that was trained on but for a layer": ([BASE, B], np.append(RIO[:2], TUNED[2:], 0), {"blend"}),
    "computed from the model by going further": ([BASE, stored(BASE + (B - BASE) / 0.57)], B, {"from_model"}),
    "a descendant": ([BASE, child(drawn(0.05), of=B)], B, {"aside"}),
    "a model that this one was trained on from": ([BASE, B], child(drawn(0.05), of=B), {"aside", "none"}),
    "a checkpoint on a straight way": ([BASE, child(STEP, drawn(0.006), of=child(STEP))], B, {"near"}),
    "a model of which whole matrices were taken": ([BASE, B], np.concatenate([B[:1], BASE[1:]]), {"pieces"}),
    "a copy of the model": ([BASE, RIO], RIO, {"none"}),
    "a sibling that learned from the same text, which has a share": ([BASE, OTHER], SIBLING, {"aside"}),
    "a relative without a share": ([B, child(drawn(0.1))], B, {"none"}),
}


@pytest.mark.parametrize(("parents", "model", "places"), PLACES.values(), ids=PLACES)
def test_what_is_a_parent_and_what_is_none_has_a_place_of_its_own(parents, model, places):
    assert {made.value for made in blend(parents, model).places[1:]} <= places


def test_coarse_rounding_hides_the_place_and_an_unknown_grid_the_remainder():
    step = np.float32(0.5)
    coarse = (np.rint((0.57 * B + 0.43 * BASE) / step) * step).astype(np.float32)
    found = blend([BASE, B], coarse, step=step)
    assert found.places[1] is BlendPlace.HIDDEN
    assert found.shares.parents[1].low <= 0.57 <= found.shares.parents[1].high
    pairs = [[(0, StoredMatrix(base)), (1, StoredMatrix(other))] for base, other in zip(BASE, B, strict=True)]
    layers = [inner_products(number, "mlp", pair, StoredMatrix(RIO[number])) for number, pair in enumerate(pairs)]
    found = blend_of(layers, 2, LAYERS)
    assert (found.remainder, found.pure) == (None, None)
    assert found.shares.parents[1].value == pytest.approx(0.57, abs=1e-3)


def test_in_100_families_no_sibling_descendant_or_ancestor_shows_as_a_parent():
    wrong = 0
    for _ in range(100):
        a, common = child(drawn(0.1)), drawn(RANDOM.uniform(0.0, 0.1))
        x = child(common, drawn(RANDOM.uniform(0.01, 0.1)))
        for other in (child(common, drawn(0.05)), child(drawn(RANDOM.uniform(0.01, 0.1)), of=x), a):
            wrong += BlendPlace.BLEND in blend([BASE, other], x).places
    assert wrong == 0
