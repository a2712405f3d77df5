"""Unit order: an exact test whether like units stand in the same places, and which experts are compared.

Hidden units of an independent model may be permuted in each layer by itself; what they read and write only says which
are alike. Tools that prune leave units in the order of their sizes, so they are permuted among those of about one size:
exact for sorted units as well. Flips say nothing: what a unit reads and writes change their signs together.
"""

import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hf_lineage.evidence.p_values import Draws, step_down
from hf_lineage.evidence.permutation import TriedElements
from hf_lineage.signature.recipe import Array, Vector, random_stream
from hf_lineage.signature.unit_rows import UnitRows, cosines

# A stratum has at least so many rows, and none is divided whose sizes differ by less than this ratio. Measured on units
# that lean on common directions the more the larger they are, both models sorted by size: strata of 8 rows leave 6 to
# 30 % of independent pairs at p <= .01, of 4 up to 8 %, of 2 or 3 one. Strata of m rows leave √((m - 1) / m) of z.
LEAST, RATIO = 2, 1.1
Numbers = NDArray[np.int64]
# Likeness of the units in the same places, where both layers have equally many; and how well the places of each other's
# best matches agree in rank within a stratum: units that were pruned or inserted leave that as it is.
PLACES, RANKS = "places", "ranks"
MOST_UNITS = 1024  # units of a layer of the candidate that are permuted, drawn at random
FEWEST_MATCHES = 8  # with fewer matched units a layer does not count for the ranks
TIED = 1e-4  # matches that differ by less are tied: among copies of one unit, the first would always be chosen
BATCH = 64  # permutations that are drawn at a time


def strata_of(sizes: Vector) -> list[Numbers]:
    """Return sets of rows that are alike in each of some sizes, given as (kinds, rows)."""
    # They are halved at the median of the size that differs most, in the ratio of its extremes. Rows of one size stay
    # together, so that the strata are the same after any permutation within them: the test is exact.
    positive = np.where(sizes > 0, sizes, 1.0)
    logarithms = np.where(sizes > 0, np.log(positive), np.log(positive).min(initial=0.0) - 1.0)
    done, waiting = list[Numbers](), [np.arange(sizes.shape[1])]
    while waiting:
        some = waiting.pop()
        mine = logarithms[:, some]
        spans = np.ptp(mine, axis=1)
        widest = mine[spans.argmax()]
        if len(some) >= 2 * LEAST and spans.max() >= np.log(RATIO) and (low := widest < np.median(widest)).any():
            waiting += [some[low], some[~low]]
        else:
            done.append(some)
    return done


def orders_within(sets: Sequence[Numbers], count: int, stream: np.random.Philox) -> Numbers:
    """Return so many permutations (count, rows) within some sets of rows, drawn from raw random words."""
    size = sum(map(len, sets))
    words = stream.random_raw(count * size).reshape(count, size)
    orders = np.empty((count, size), np.int64)
    for length in {len(some) for some in sets}:
        alike = np.stack([some for some in sets if len(some) == length])
        orders[:, alike] = np.take_along_axis(alike[None], np.argsort(words[:, alike], axis=2, kind="stable"), axis=2)
    return orders


@dataclass(frozen=True)
class MatchedUnits:
    """The units of one layer of the candidate, matched with those of its partner to test their order."""

    group: int  # layers of the candidate that are copies of each other have one number, and are permuted alike
    weight: float  # share of what all layers write that this layer writes
    units: Numbers  # (q,): the candidate's units that are permuted
    alike: Array | None  # (q, q): how alike they are to the base's by places and weight; None for unlike sizes
    places: Numbers  # (n,): which of them have a match, by their places in `units`
    partners: Numbers  # (n,): the place of each match in the base
    strength: Vector  # (n,): the weight of each of these pairs
    sizes: Vector  # (2, q): how much the units read and write, over their mean


def match_order(base: UnitRows, candidate: UnitRows, units: Numbers, group: int, weight: float) -> MatchedUnits:
    """Return what two layers say about the order of their units, given those that are permuted."""
    chosen = candidate.select(units)
    product = cosines(chosen, base)
    # Units that write next to nothing are left out, and so are ties: where copies compete, the place would decide.
    live, base_live = (np.flatnonzero(each > 1e-3 * each.mean()) for each in (chosen.weight, base.weight))
    places = partners = np.zeros(0, dtype=np.int64)
    strength = np.zeros(0)
    if min(len(live), len(base_live)) >= 2:
        among = product[np.ix_(live, base_live)]
        (best, value, alone), (back, _, base_alone) = _best(among), _best(np.ascontiguousarray(among.T))
        mutual = (back[best] == np.arange(len(live))) & alone & base_alone[best] & (value > 0)
        places, partners = live[mutual], base_live[best[mutual]]
        strength = np.sqrt(chosen.weight[places] * base.weight[partners]) * value[mutual].astype(np.float64) ** 2
    same = len(base.weight) == len(candidate.weight)
    roots = (np.sqrt(rows.weight / (rows.weight.sum() or 1.0)) for rows in (candidate, base))
    alike = product[:, units] * np.outer(*(root.astype(np.float32)[units] for root in roots)) if same else None
    means = candidate.sizes.mean(axis=1, keepdims=True)
    sizes = candidate.sizes[:, units] / np.where(means > 0, means, 1.0)
    return MatchedUnits(group, weight, units, alike, places, partners, strength, sizes)


def _best(among: Array) -> tuple[Numbers, Array, NDArray[np.bool_]]:
    """Return the place of the best of every row, its value, and whether it is better than the second."""
    rows, place = np.arange(len(among)), among.argmax(axis=1)
    first = among[rows, place]
    among[rows, place] = -np.inf
    alone: NDArray[np.bool_] = first - among.max(axis=1) > TIED
    among[rows, place] = first
    return place, first, alone


def _ranks(numbers: Numbers) -> Vector:
    ranks, count = np.argsort(np.argsort(numbers)), len(numbers)
    return np.asarray((ranks - (count - 1) / 2) / np.sqrt((max(count, 2) ** 2 - 1) / 12))


@dataclass(frozen=True)
class UnitOrder:
    """The test of the order of hidden units."""

    observed: Mapping[str, float]  # statistic -> its observed value
    z: Mapping[str, float]  # statistic -> deviations above what permutations give; a picture, not a test
    p_value: float  # p-value of the largest statistic, not corrected for other tests of the same claim
    draws: int  # number of permutations that were drawn


def order_test(layers: Sequence[MatchedUnits], first: int, seed: int) -> UnitOrder | None:
    """Return the test of the order of the units in some layers; None where there is nothing to permute."""
    # All experts of one size in a layer are permuted alike. Their order is left alone: it need not be random, and those
    # paired by what they have in common as sets are paired alike under every such permutation. Nor is each permuted by
    # itself: copies of one dense layer resemble each other unit by unit, and would seem to agree more often than they
    # do. Both statistics are judged by the larger one; units weigh what they write, or silent copies would count.
    names = [PLACES] if any(layer.alike is not None for layer in layers) else []
    names += [RANKS] if any(len(layer.places) >= FEWEST_MATCHES for layer in layers) else []
    if not names:
        return None
    shared = itertools.tee(_replicates(layers, seed), len(names))
    draws = {name: Draws(map(operator.itemgetter(name), pieces)) for name, pieces in zip(names, shared, strict=True)}
    alone = {name: TriedElements.draw(drawn, first).p_value for name, drawn in draws.items()}
    p_values = step_down(draws, alone, first) if len(draws) > 1 else alone
    z = {name: float(drawn.standardise(drawn.observed)) for name, drawn in draws.items()}
    count = max(len(drawn.compute_values(0)) for drawn in draws.values())
    return UnitOrder({name: drawn.observed for name, drawn in draws.items()}, z, min(p_values.values()), count)


def _replicates(layers: Sequence[MatchedUnits], seed: int) -> Iterator[Mapping[str, Vector]]:
    """Yield both statistics as observed, and then under permutations, some at a time and without end."""
    alike: dict[tuple[int, int], list[MatchedUnits]] = {}
    for one in layers:
        alike.setdefault((one.group, len(one.units)), []).append(one)
    strata = {key: strata_of(np.sum([one.sizes for one in some], axis=0)) for key, some in alike.items()}
    parts = [(key, one, *_within(one, strata[key])) for key, some in alike.items() for one in some]
    streams = {key: random_stream(f"order of units {seed} {key[0]} {key[1]}") for key in alike}
    orders = {key: np.arange(key[1])[None] for key in alike}
    while True:
        count = len(next(iter(orders.values())))
        values: dict[str, list[Vector]] = {PLACES: [np.zeros(count)], RANKS: [np.zeros(count)]}
        for key, layer, places, ranks in parts:
            if layer.alike is not None:
                placed = layer.alike[orders[key], np.arange(len(layer.alike))]  # C[π(u), u] for each permutation π
                values[PLACES].append(layer.weight * placed.sum(axis=1, dtype=np.float64))
            if len(layer.places) >= FEWEST_MATCHES:
                values[RANKS].append(layer.weight * (ranks[orders[key]] @ places))
        yield {name: np.sum(some, axis=0) for name, some in values.items()}
        orders = {key: orders_within(strata[key], BATCH, stream) for key, stream in streams.items()}


def _within(layer: MatchedUnits, sets: Sequence[Numbers]) -> tuple[Vector, Vector]:
    """Return the ranks (q,) of units and of their matches among those of a stratum, the latter times their weights."""
    # Ranks among all would say nothing of sorted units, and there a few wrong matches would drown what right ones say.
    places, ranks, total = np.empty(len(layer.units)), np.zeros(len(layer.units)), layer.strength.sum() or 1.0
    partner, strength = np.full(len(layer.units), -1), np.zeros(len(layer.units))
    partner[layer.places], strength[layer.places] = layer.partners, layer.strength / total
    for some in sets:
        places[some] = _ranks(some)
        mine = some[partner[some] >= 0]
        ranks[mine] = strength[mine] * _ranks(partner[mine])
    return places, ranks


def copies(layers: Sequence[UnitRows]) -> list[int]:
    """Return for every layer of a model a number that layers which copy each other have in common."""
    groups = list(range(len(layers)))
    for later, earlier in ((b, a) for b in range(len(layers)) for a in range(b)):
        one, other = layers[earlier], layers[later]
        if groups[later] == later and one.inner.shape == other.inner.shape:
            alike = np.vecdot(one.inner, other.inner) * np.vecdot(one.outer, other.outer)
            groups[later] = groups[earlier] if float(np.median(alike)) > 0.3 else later
    return groups


def by_expert(
    base: UnitRows, candidate: UnitRows, group: int, weight: float, seed: int, most: int = MOST_UNITS
) -> Iterator[MatchedUnits]:
    """Yield what the experts of a layer and those of the base that they are most alike say about the order of units."""
    # A layer without experts is one expert. `group` is the number that layers which copy each other have in common, and
    # `most` how many units of an expert are permuted: of all experts of a layer together about 4,096, and 64 of each.
    experts, total = candidate.by_expert, float(candidate.weight.sum())
    most = most if len(experts) == 1 else min(most, max(64, 4096 // len(experts)))
    for place in experts:
        expert = candidate.select(place)
        share = float(expert.weight.sum()) / total if total > 0 else 0.0
        if weight * share > 0:
            units = np.arange(len(expert.weight))
            if len(units) > most:
                words = random_stream(f"permuted units {seed} {group}").random_raw(len(units))
                units = np.sort(np.argsort(words, kind="stable")[:most])
            yield match_order(base.select(_nearest(base, expert)), expert, units, group, weight * share)


def _nearest(base: UnitRows, expert: UnitRows) -> slice:
    """Return the units of the base's expert most like another one, by the units that write most, in any order."""
    own = base.by_expert
    if len(own) == 1:
        return own[0]
    heavy = expert.select(np.argsort(-expert.weight, kind="stable")[:8])
    best = np.maximum.reduceat(cosines(heavy, base), [part.start for part in own], axis=1)
    return own[int(np.argmax(heavy.weight @ best.astype(np.float64)))]
