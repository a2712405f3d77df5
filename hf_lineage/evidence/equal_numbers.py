"""Equal numbers: how many numbers of a model are those of a base, bit for bit, and whether chance reaches as many.

DARE, sparse updates, frozen parts and grafts leave such numbers, whatever happened to the others. Independent models
have no more of them than after any permutation or flip of residual coordinates. What that does to a layer follows from
one table: by which share of the energy numbers of the base's coordinate j equal those of the candidate's k.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.evidence.p_values import Draws, most
from hf_lineage.evidence.permutation import FEWEST_COORDINATES, HALVES, TriedElements, elements
from hf_lineage.signature.recipe import Array, Vector

FIRST, RARE = 256, 0.99  # a layer reaches by chance what this quantile over so many permutations does
# Energy of equal numbers, (m, m) of the candidate's coordinate k beside the base's j; that of each coordinate beside
# itself with the other sign, (m,); the share of all numbers that is equal, and of the energy.
Table = tuple[Vector, Vector, float, float]


class Rows(NamedTuple):
    """Some rows of one matrix, stored alike in both models, with a residual coordinate in each column."""

    layer: int
    numbers: int  # numbers of the whole matrix, by which it counts: enlarging one and shrinking another changes nothing
    base: Array
    candidate: Array  # (r, m): the coordinates are the same ones, in the same order, in all matrices


@dataclass(frozen=True)
class EqualNumbers:
    """The share of each layer that is the base's, by the numbers that are equal."""

    layers: tuple[int, ...]  # their numbers, ascending
    equal: Vector  # (L,): the share q of the numbers; those that are zero in either model are none
    energy: Vector  # (L,): the share e of the candidate's energy that lies in equal numbers: small ones buy nothing
    chance: Vector  # (L,): the energy that equals by chance, as elements of the group show it
    permuted: TriedElements
    flipped: TriedElements
    tests: int = 1  # tests of the same claim, for which p is corrected

    @property
    def p_value(self) -> float:
        """The larger p-value of the two halves of the group, corrected for all tests of the claim."""
        return min(1.0, self.tests * max(self.permuted.p_value, self.flipped.p_value))

    @property
    def at_least(self) -> Vector:
        """(L,): the share of each layer that is inherited at least."""
        rest = np.where(self.chance < 1, 1 - self.chance, 1.0)
        return np.clip((self.energy - self.chance) / rest, 0.0, 1.0)

    @property
    def share(self) -> float:
        """The share of all layers together that is inherited at least; each layer counts alike."""
        return float(self.at_least.mean())


def compare_numbers(matrices: Sequence[Rows], first: int, seed: int, tests: int = 1) -> EqualNumbers | None:
    """Return what is equal in some matrices; None where there is nothing to permute. `first` is as in `p_values`."""
    layers = sorted({one.layer for one in matrices})
    tables = [_of_layer([one for one in matrices if one.layer == layer]) for layer in layers]
    if not tables or len(tables[0][1]) < FEWEST_COORDINATES:
        return None
    straight, turned, equal, energy = map(np.array, zip(*tables, strict=True))
    whole, other = straight.mean(axis=0), turned.mean(axis=0)

    def energies(half: str) -> Iterator[Vector]:
        fixed = whole.diagonal()
        for drawn in elements(half, len(fixed), most(first), seed):
            moved = _permute(whole, drawn) if half == "permutations" else np.where(drawn > 0, fixed, other).sum(-1)
            yield np.array([round(energy, 12) for energy in moved.tolist()])  # sums in another order differ by less

    permuted, flipped = (TriedElements.draw(Draws(energies(half)), first) for half in HALVES)
    reached = _permute(straight, np.concatenate([*elements("permutations", turned.shape[1], FIRST, seed)][1:]))
    chance = np.maximum(np.quantile(reached, RARE, axis=-1), turned.sum(axis=1))
    return EqualNumbers(tuple(layers), equal, energy, chance, permuted, flipped, tests)


def _of_layer(matrices: Sequence[Rows]) -> Table:
    total = sum(one.numbers for one in matrices)
    parts = zip(*([part * one.numbers / total for part in _tabulate(one)] for one in matrices), strict=True)
    straight, turned, equal, energy = (sum(part) for part in parts)
    return straight, turned, equal, energy


def _tabulate(rows: Rows) -> Table:
    """Return the table of one matrix; what depends on pairs of coordinates is of 64 of its rows at most."""
    with np.errstate(over="ignore"):
        energy = rows.candidate.astype(np.float64) ** 2
        total = energy.sum()
    # A matrix whose energy is not finite has nothing in common with another.
    energy = energy / (total or 1.0) if np.isfinite(total) else np.zeros_like(energy)
    same, few = (rows.base == rows.candidate) & (energy > 0), slice(None, None, -(-len(energy) // 64))
    base, candidate, weight = rows.base[few], rows.candidate[few], energy[few] / (energy[few].sum() or 1.0)
    straight = np.stack([one @ (base == number[:, None]) for one, number in zip(weight.T, candidate.T, strict=True)])
    return straight.T, (weight * (base == -candidate)).sum(axis=0), same.mean(), energy[same].sum()


def _permute(straight: Vector, orders: NDArray[np.int64]) -> Vector:  # k meets coordinate orders[:, k] of the base
    return np.asarray(straight[..., orders, np.arange(orders.shape[1])].sum(axis=-1))
