"""Inherited units: how much of what a model writes has a counterpart in its base, whoever tries to imitate it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_lineage.evidence import inherited as module
from hf_lineage.evidence.comparison import compare_paths
from hf_lineage.evidence.inherited import ALIKE, MOST, have_counterparts, inherited_units, union_inherited
from hf_lineage.signature.devices import workers
from hf_lineage.signature.matrix_product import MatrixProduct, Probes
from hf_lineage.signature.recipe import RECIPES, random_stream
from hf_lineage.signature.residual import summarise
from hf_lineage.signature.values import UnitCodes
from tests.networks import stack
from tests.properties import cases

WIDTH, HIDDEN, LAYERS = 256, 400, 3
RECIPE = RECIPES["robust"]
SIZES = st.tuples(st.integers(1, 19), st.integers(0, 19), st.integers(0, 19))


def model(seed=0, layers=LAYERS, hidden=HIDDEN):
    random = torch.Generator().manual_seed(seed)
    shapes = (hidden, WIDTH), (WIDTH, hidden)
    return [tuple(torch.randn(*shape, generator=random) for shape in shapes) for _ in range(layers)]


def signature(layers, part=1):
    """The signature of a model; a layer is one matrix set, or a list of experts."""
    probes = Probes.draw(RECIPE, WIDTH)
    sets = [layer if isinstance(layer, list) else [layer] for layer in layers]
    terms = [[MatrixProduct(out.numpy(), inn.numpy(), part) for inn, out in layer] for layer in sets]
    with workers() as share:
        blocks = [summarise(branch, probes, RECIPE, share) for branch in terms]
    return replace(stack(blocks), units=tuple(block.units for block in blocks))


def inherited(base, candidate, seed=0, part=1):
    pair = signature(base, part), signature(candidate, part)
    return inherited_units(*pair, compare_paths(*pair), seed)


def edited(layers, change):
    return [change(inn.clone(), out.clone()) for inn, out in layers]


def mixed(some, others, chosen):
    """A model whose chosen hidden units are those of another."""

    layers = edited(some, lambda *both: both)
    for (inn, out), (other_inn, other_out) in zip(layers, others, strict=True):
        inn[chosen], out[:, chosen] = other_inn[chosen], other_out[:, chosen]
    return layers


def appended(layers, others, size):
    """A model with all units of another beside its own, whose writers are so many times as large."""
    pairs = zip(layers, others, strict=True)
    return [(torch.cat([inn, more]), torch.cat([out, size * also], dim=1)) for (inn, out), (more, also) in pairs]


@pytest.mark.parametrize("hidden", [100, MOST, HIDDEN])
def test_a_copy_inherits_everything_and_no_more(hidden):
    """Reports are refused by their schema if a share is larger, be it by the last digit of a sum."""
    result = inherited(model(hidden=hidden, layers=12), model(hidden=hidden, layers=12))
    assert result.by_layer.tolist() == pytest.approx([1.0] * 12)
    assert result.share == pytest.approx(1.0)
    assert max(*result.by_layer, result.share) <= 1
    assert result.layers == tuple(range(12))


def launder(inn, out):
    order, scale = torch.randperm(len(inn), generator=torch.Generator().manual_seed(5)), torch.rand(len(inn)) + 0.1
    return (scale[:, None] * inn)[order], (out / scale)[:, order]


def tune(inn, out):
    random = torch.Generator().manual_seed(9)
    return tuple(matrix + 0.3 * torch.randn(matrix.shape, generator=random) for matrix in (inn, out))


CANDIDATES = {
    "of its own": (model(seed=1), 0),
    "permuted and rescaled": (edited(model(), launder), 1),
    "trained further": (edited(model(), tune), 1),
    "turned in both sides": (edited(model(), lambda inn, out: (-inn, -out)), 1),
    "turned in one": (edited(model(), lambda inn, out: (inn, -out)), 0),
    "writing something else": ([(inn, out) for (inn, _), (_, out) in zip(model(), model(seed=1), strict=True)], 0),
}


@pytest.mark.parametrize(("candidate", "share"), CANDIDATES.values(), ids=CANDIDATES)
def test_units_are_inherited_if_what_they_read_and_what_they_write_is(candidate, share):
    result = inherited(model(), candidate)
    assert result.share == pytest.approx(share)
    assert result.layers == ((0, 1, 2) if share else ())


def test_the_interval_covers_the_share_as_often_as_it_says():
    base, candidate = signature(model(layers=1)), signature(mixed(model(1, layers=1), model(layers=1), slice(0, 120)))
    comparison = compare_paths(base, candidate)
    (codes,) = candidate.units
    truth = float(codes.weight[:120].sum(dtype=np.float64) / codes.weight.sum(dtype=np.float64))
    repeated = [inherited_units(base, candidate, comparison, seed) for seed in range(300)]
    missed = sum(not low <= truth <= high for low, high in (each.interval for each in repeated))
    assert missed <= 0.01 * 300 + 3
    assert np.mean([each.share for each in repeated]) == pytest.approx(truth, abs=0.01)


@pytest.mark.parametrize("size", [1e-6, 1, 1e6])
def test_loud_units_of_another_model_turn_nothing_unless_they_are_more_than_its_own(size):
    few = [(inn[::2], out[:, ::2]) for inn, out in model(layers=1)]
    assert inherited(model(layers=1), appended(model(seed=1, layers=1), few, size)).share < 0.4
    few = [(inn[::2], out[:, ::2]) for inn, out in model(seed=1, layers=1)]
    assert inherited(model(layers=1), appended(model(layers=1), few, size)).share > 0.6


@pytest.mark.parametrize("size", [100, 1])
def test_one_grafted_layer_is_one_layer_however_loud_it_is(size):
    own, other = model()[1], model(seed=1)[1]
    candidate = model(seed=1)
    candidate[1] = own[0], size * own[1]
    result = inherited(model(), candidate)
    assert result.by_layer.tolist() == pytest.approx([0, 1, 0])
    assert (result.layers, result.share) == ((1,), pytest.approx(1 / 3))
    loud = model()
    loud[1] = other[0], size * other[1]
    assert inherited(model(), loud).share == pytest.approx(2 / 3)


def test_layers_are_held_against_those_they_are_paired_with_and_experts_in_any_order():
    moved = [model()[number] for number in (2, 0, 1)]
    assert inherited(model(), moved).by_layer.tolist() == pytest.approx([1, 1, 1])
    candidate = model()
    candidate[0] = candidate[0][0], 0 * candidate[0][1]
    result = inherited(model(), candidate)
    assert result.by_layer.tolist() == pytest.approx([0, 1, 1])
    assert result.weights.tolist() == pytest.approx([0, 0.5, 0.5], abs=0.01)
    experts = [list(model(seed, layers=4, hidden=100)) for seed in (10, 11)]
    moved = [[layer[number] for number in (3, 1, 0, 2)] for layer in experts]
    assert inherited(experts, moved).share == pytest.approx(1.0)
    dense = [(torch.cat([inn for inn, _ in layer]), torch.cat([out for _, out in layer], dim=1)) for layer in experts]
    assert inherited(dense, moved).share == pytest.approx(1.0)


@pytest.mark.parametrize("part", [25, 50])
def test_heads_are_units_of_their_own(part):
    turned = torch.linalg.qr(torch.randn(part, part, generator=torch.Generator().manual_seed(3)))[0]

    def turn(inn, out):
        heads = [slice(start, start + part) for start in range(0, HIDDEN, part)][::-1]
        return torch.cat([turned.mT @ inn[head] for head in heads]), torch.cat([out[:, h] @ turned for h in heads], 1)

    assert inherited(model(), edited(model(), turn), part=part).share == pytest.approx(1.0)
    assert inherited(model(), model(seed=1), part=part).share == 0.0


def test_units_of_unlike_numbers_of_signs_or_with_opposite_gates_have_no_counterpart():
    def codes(reader, writer, gate=0):
        random = np.random.default_rng(0)
        rows = (random.integers(0, 256, (3, size), dtype=np.uint8) for size in (reader, writer, gate))
        return UnitCodes(np.ones(3, np.float32), *rows)

    every = np.arange(3)
    assert have_counterparts(codes(8, 8), codes(8, 8), every).tolist() == [True] * 3
    for other in (codes(9, 8), codes(8, 16), codes(8, 0), codes(8, 8, 8)):
        assert have_counterparts(codes(8, 8), other, every).tolist() == [False] * 3
    gated = codes(8, 8, 8)
    assert have_counterparts(gated, replace(gated, inner=~gated.inner, outer=~gated.outer), every).all()
    assert not have_counterparts(gated, replace(gated, inner=~gated.inner, gate=~gated.gate), every).any()


def test_without_units_nothing_is_told_and_what_two_bases_gave_is_counted_once():
    whole = signature(model(layers=1))
    bare = replace(whole, units=())
    for base, candidate in ((bare, whole), (whole, bare)):
        assert inherited_units(base, candidate, compare_paths(base, candidate), 0) is None
    merged = mixed(model(1), model(2), slice(0, HIDDEN // 2))
    first, second = inherited(model(1), merged), inherited(model(2), merged)
    both = union_inherited([first, second])
    assert (first.share + second.share, both.share) == (pytest.approx(1.0), pytest.approx(1.0))
    assert union_inherited([first, first, first]).share == first.share
    # What was looked up otherwise is not put together.
    assert union_inherited([first, inherited(model(1), merged, seed=1)]) is None
    assert union_inherited([first, inherited(model(1), merged[:2])]) is None


def test_units_are_drawn_alike_everywhere_and_a_quarter_doubles_the_interval():
    assert random_stream("units 0 0").random_raw(2).tolist() == [275490257703793019, 12325119978769544077]
    half = mixed(model(1), model(), slice(0, 200))
    one, again, other = (inherited(model(), half, seed=seed).by_layer.tolist() for seed in (4, 4, 5))
    assert one == again != other
    base, candidate = signature(model()), signature(mixed(model(seed=1), model(), slice(0, HIDDEN // 2)))
    comparison = compare_paths(base, candidate)
    many, few = (inherited_units(base, candidate, comparison, 0, fewer) for fewer in (False, True))
    assert {len(one.units) for one in many.drawn_units} == {4 * len(one.units) for one in few.drawn_units}
    assert few.error == pytest.approx(2 * many.error)
    result = inherited(model(hidden=MOST), mixed(model(1, hidden=MOST), model(hidden=MOST), slice(0, 64)))
    assert (result.error, result.interval) == (0, (result.share, result.share))
    assert result.share == pytest.approx(0.25, abs=0.02)


@cases(100)
@given(st.integers(1, 6), st.integers(1, 9), SIZES, st.integers(1, 30), st.integers(0, 2**32))
def test_counterparts_are_those_of_comparing_sign_by_sign(candidate_units, base_units, sizes, at_a_time, seed):
    """A product of cosines over the rows that have signs: heads have one, hidden units two, gated ones three."""
    drawn, (inner, outer, gate) = np.random.default_rng(seed), sizes
    candidate, base = (
        [drawn.integers(0, 2, (units, 8 * size), dtype=np.uint8) for size in (inner, outer, gate if outer else 0)]
        for units in (candidate_units, base_units)
    )
    sides = [pair for pair in zip(candidate, base, strict=True) if pair[0].size]

    def alike(i, j):
        first, *others = [np.cos(np.pi * np.mean(mine[i] != other[j])) for mine, other in sides]
        return np.prod([first, *others[:1], *(max(gated, 0) for gated in others[1:])])

    least = ALIKE ** (1.5 if len(sides) == 3 else 1)
    expected = [max(alike(i, j) for j in range(base_units)) for i in range(candidate_units)]
    packed = [
        UnitCodes(np.ones(len(sides[0]), np.float32), *(np.packbits(side, axis=1) for side in sides))
        for sides in (candidate, base)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "AT_A_TIME", at_a_time)
        found = have_counterparts(packed[1], packed[0], np.arange(candidate_units))
    assert found.tolist() == [product > least for product in expected]
