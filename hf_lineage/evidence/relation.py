"""Derivation: how a candidate was made from its base, from what was done to the matrices that were compared.

It describes a pair that the verdict calls related, and decides nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from hf_lineage.checkpoint.rounding import Matrix
from hf_lineage.evidence.change import Change, EqualShare

IN_PLACE, MATCHED = 0.7, 0.9  # median cosines of rows: with more, units are in their places, or have moved
RESCALED = 0.02  # units count as rescaled where half of them changed their length by more than this
SPARSE = 0.1  # a larger share of equal numbers shows that most were not changed
MLPS, ATTENTION, NORMS = "MLPs", "attention", "norms"
CLEAR = 3  # factor by which rescaling has to exceed other changes of a unit: pruning also makes units shorter


class Means(Enum):
    """Ways to change the weights of a base, by their identifiers in reports."""

    UNCHANGED = "unchanged"
    REORDERED = "reordered"
    QUANTIZED = "quantized"
    PRUNED = "pruned"
    LOW_RANK = "low_rank"
    DENSE = "dense"
    SPARSE = "sparse"
    FROZEN = "frozen"
    OTHERS = "others"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class AlignedRows:
    """Rows of a base's matrix, each beside the candidate's row that came of it."""

    base: Matrix
    reordered: bool = False
    rescaled: bool = False
    folded: bool = False


@dataclass(frozen=True)
class Derivation:
    """The changes of the matrices of a base."""

    changes: tuple[Change, ...]  # one for each matrix that was compared
    reordered: bool = False  # whether hidden units are in another order than in the base
    rescaled: bool = False  # whether hidden units read a multiple of what they read in the base
    stored_bits: float = 0.0  # bits per weight, scales included, if the candidate's have to be decoded; else 0
    equal_shares: tuple[EqualShare, ...] = ()  # all tensors at hand that both name and neither stores quantized
    folded: bool = False  # whether gains of norms were moved into the matrices that read their outputs

    @property
    def changed_matrices(self) -> tuple[Change, ...]:
        """The changes of the matrices that are not those of the base."""
        return tuple(change for change in self.changes if not change.equal or change.zeros)

    @property
    def bits(self) -> int:
        """Bits of the quantization that most of the changed matrices show; 0 if there is none."""
        bits = [change.bits for change in self.changed_matrices]
        return max(bits) if 2 * sum(map(bool, bits)) > len(bits) else 0

    @property
    def zeros(self) -> float:
        """The share of weights that were set to zero; 0 if most matrices have none."""
        shares = [change.zeros for change in self.changed_matrices]
        return float(np.mean(shares)) if 2 * sum(map(bool, shares)) > len(shares) else 0.0

    @property
    def rank(self) -> int | None:
        """The rank of the change beside rounding; None if it is not low in every matrix, or there is none."""
        ranks = [change.rank for change in self.changed_matrices]
        known = [rank for rank in ranks if rank is not None]
        return max(known) if known and len(known) == len(ranks) and max(known) > 0 else None

    @property
    def certain(self) -> bool:
        """Whether the rank is known, and not only a bound from below."""
        return all(change.certain for change in self.changed_matrices if change.rank == self.rank)

    @property
    def size(self) -> float:
        """The size of the change relative to the weights, in the median of the changed matrices."""
        return float(np.median([change.size for change in self.changed_matrices])) if self.changed_matrices else 0.0

    @property
    def means(self) -> tuple[Means, ...]:
        """The changes of the weights, in the order in which they are named."""
        return tuple(means for means, _ in self._steps())

    @property
    def words(self) -> str:
        """The changes of the weights, as a phrase."""
        return ", ".join(words for _, words in self._steps())

    def _steps(self) -> Iterator[tuple[Means, str]]:
        if moves := ["reordered"] * self.reordered + ["rescaled"] * self.rescaled:
            yield Means.REORDERED, f"hidden units {' and '.join(moves)}"
        if self.folded:
            yield Means.REORDERED, "gains of norms moved into matrices"
        quantized = bool(self.stored_bits or self.bits)
        before = [*self._remainder()]
        if self.zeros:  # a quantization hides zeros of small weights
            least = "at least " if quantized else ""
            before.insert(0, (Means.PRUNED, f"pruned ({least}{self.zeros:.0%} of the weights set to zero)"))
        clear = [one for one in before if one[0] is not Means.UNCLEAR]
        if quantized:
            names = {f" ({change.grid})" for change in self.changed_matrices if change.grid}
            form = f"to {self.bits} bits{''.join(names) if len(names) == 1 else ''}"
            form = f"(stored with {self.stored_bits:.2g} bits a weight)" if self.stored_bits else form
            yield from clear
            yield Means.QUANTIZED, f"{'then ' if clear else ''}quantized {form}"
            if len(clear) < len(before):
                yield Means.UNCLEAR, f"whether or how {self._some} were changed before is unclear"
        else:
            yield from before
        meanings, frozen, others = {means for means, _ in before}, self._kinds(True), self._kinds(False)
        if meanings & {Means.DENSE, Means.SPARSE}:
            if frozen and not quantized:
                yield Means.FROZEN, f"the {' and '.join(frozen)} are the base's, unchanged"
        elif self.changed_matrices and others and Means.UNCLEAR not in meanings:
            yield Means.OTHERS, f"the {' and '.join(others)} changed as well"

    def _remainder(self) -> Iterator[tuple[Means, str]]:
        """Yield the changes beside quantization and pruning."""
        explained = bool(self.bits or self.stored_bits or self.zeros)
        others = self._kinds(False)
        clear = (self.bits or not self.stored_bits) and all(change.certain for change in self.changed_matrices)
        if self.sparse and not explained and self.rank is None:
            rest = "the others are not, as DARE, a sparse update or short training leaves them"
            yield Means.SPARSE, f"{self.sparse:.0%} of the numbers are the base's, unchanged, {rest}"
        elif not self.changed_matrices:
            words = f"all but the {' and '.join(others)} are the base's, unchanged" if others else "weights unchanged"
            yield from () if explained else ((Means.FROZEN if others else Means.UNCHANGED, words),)
        elif self.rank is not None:
            exact = f"{self.rank} in {self._some}, as a merged LoRA adapter leaves it"
            least = f"at least {self.rank} in {self._some} (rounding hides the rest)"
            yield Means.LOW_RANK, f"a change of rank {exact if self.certain else least}"
        elif all(change.rank is None and not change.equal for change in self.changed_matrices) and clear:
            size = f"{'about ' if self.bits else ''}{self.size:.1%}"
            yield Means.DENSE, f"{self._some} changed in full (by {size} of their size), as by fine-tuning or a merge"
        elif not explained or not all(change.equal or change.rank == 0 for change in self.changed_matrices):
            yield Means.UNCLEAR, f"{self._some} changed in a way that is unclear"

    @property
    def sparse(self) -> float:
        """The share of numbers that are the base's; 0 if less than SPARSE are in the matrices that differ from it."""
        differing = [one for one in self.equal_shares if one.equal < 1 and one.kind in (MLPS, ATTENTION)]
        return _equal(self.equal_shares) if _equal(differing) >= SPARSE else 0.0

    def _kinds(self, equal: bool) -> list[str]:
        """Return the kinds of tensors that are all the base's, or else those that are not and nothing else names."""
        moved = {MLPS} if self.reordered or self.rescaled else set()
        moved |= {NORMS, MLPS, ATTENTION} if self.folded else set()
        moved |= {MLPS, ATTENTION} if self.changed_matrices and not equal else set()
        differing = {one.kind for one in self.equal_shares if one.equal < 1}
        kinds = dict.fromkeys(one.kind for one in self.equal_shares)
        return [kind for kind in kinds if (kind in differing) is not equal and kind not in moved]

    @property
    def _some(self) -> str:
        return f"{len(self.changed_matrices)} of {len(self.changes)} matrices"


def _equal(shares: Sequence[EqualShare]) -> float:
    return sum(one.numbers * one.equal for one in shares) / max(1, sum(one.numbers for one in shares))


def align(base: Matrix, candidate: Matrix, places: Sequence[int] | slice = slice(None)) -> AlignedRows | None:
    """Return the rows of a base (h, d) from which those of a candidate (q, d) in `places` came; else None."""
    rows, units, base_units = base[places], _units(candidate), _units(base)
    reordered = not float(np.median((units * base_units[places]).sum(axis=1))) >= IN_PLACE
    if reordered:
        cosines = units @ base_units.T
        best = cosines.argmax(axis=1)
        if float(np.median(cosines.max(axis=1))) < MATCHED or len(np.unique(best)) < len(best) / 2:
            return None
        rows = base[best]
    squares = (rows.astype(np.float64) ** 2).sum(axis=1)
    factors = np.divide((rows * candidate).sum(axis=1), squares, out=np.ones(len(rows)), where=squares > 0)
    multiples = (rows * factors[:, None]).astype(np.float32)
    rest = np.linalg.norm(candidate - multiples, axis=1) / np.sqrt(np.where(squares > 0, squares, 1))
    if np.median(np.abs(factors - 1)) <= max(RESCALED, CLEAR * float(np.median(rest))):
        return AlignedRows(rows, reordered)
    return AlignedRows(multiples, reordered, rescaled=True)  # as long as those of the candidate


def _units(rows: Matrix) -> Matrix:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=(lengths > 0) & np.isfinite(lengths)))
