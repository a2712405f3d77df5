"""Unit comparison: what two models show unit by unit in shared coordinates, and the verdict on it.

The order of units is tested exactly. The share of inherited units also finds units in another order, but independent
models of one vocabulary have the geometry of its tokens in common. RELATED is verified only by the test together with a
large enough share: a few copied units are in perfect order, and sorted units are in a similar one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hf_lineage.evidence import measure
from hf_lineage.evidence.comparison import assign, in_order
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import CHANCE, as_related, name_layers
from hf_lineage.evidence.inherited import HALF, InheritedShare, inherited_share
from hf_lineage.evidence.unit_order import MOST_UNITS, MatchedUnits, UnitOrder, by_expert, copies, order_test
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.signature.unit_rows import Layers, UnitRows, likeness

TOKEN: str = "token"  # noqa: S105 - coordinates: the rows of shared tokens
RESIDUAL: str = "residual"  # those of the residual stream
PROCRUSTES: str = "procrustes"  # those in which units fit best
LITTLE = 0.05  # a share that says nothing: independent models of one vocabulary have as much in common
IN_ORDER = 0.02  # largest uncorrected p of unit order, in the layers that are read first, with which others are read
CANCELLED = 0.5  # least share that remains of what all units write: with less, most of what they write says nothing
CALIBRATION = "benchmarks/results/ours-frames.json"  # the measurement from which the two figures below come
PAIRS, LARGEST = 1035, 0.03  # pairs of independent models, and the largest share that one inherits from the other
CALIBRATED = 0.1  # with a larger share two models are not called UNRELATED; above one half they are RELATED, calibrated
UNDONE = "the residual stream was rotated, reordered or changed in width"  # what other coordinates than its own undo
THROUGH = {  # how units are compared, as a phrase
    TOKEN: "through {0.tokens:,} tokens that both models know by their {0.by}",
    RESIDUAL: "in the coordinates of the residual stream",
    PROCRUSTES: "in the coordinates that fit the base best (orthogonal Procrustes)",
}


@dataclass(frozen=True)
class Coordinates:
    """The coordinates in which two models are seen unit by unit."""

    name: str  # TOKEN, RESIDUAL or PROCRUSTES
    tokens: int = 0  # number of shared tokens; 0 where none are needed
    by: str = ""  # property by which tokens are known to be the same, in a word


@dataclass(frozen=True)
class UnitComparison:
    """Two models compared unit by unit."""

    coordinates: Coordinates
    layers: tuple[tuple[int, ...], tuple[int, ...]]  # numbers of those that were read, of the base and of the candidate
    depth: int  # number of the candidate's layers that have hidden units
    partners: tuple[int, ...]  # the number of the base's layer that each of the candidate's was compared with
    inherited: InheritedShare  # the share of hidden units that are inherited
    order: UnitOrder | None  # None where there is nothing to permute
    tests: int = 1  # number of tests of the same claim for which p is corrected (Bonferroni)
    kept_share: float = 1.0  # the least share of a layer's units that was looked at; below 1 with very many experts
    remains: float = 1.0  # size of what all units write, over its size if none undid others (trained models: 1)
    searched: bool | None = True  # False where a fit of coordinates was left out, None where one was not possible
    heads: InheritedShare | None = None  # the same of heads; None where too few units are inherited to ask

    @property
    def p_value(self) -> float | None:
        """The p-value of the exact test, corrected for all tests of the claim; None where there is none."""
        return None if self.order is None else min(1.0, self.tests * self.order.p_value)

    @property
    def at_chance(self) -> bool:
        """Whether nothing points to a relation: no more units than independent models have in common, in any order."""
        ordered = self.order is not None and self.order.p_value <= IN_ORDER
        return self.inherited.share <= LITTLE * self.kept_share and not ordered and self.remains >= CANCELLED

    @property
    def least(self) -> float:
        """A lower bound on the share of all layers that is inherited, whatever those hold that were not read (99 %)."""
        bounds = []
        for inherited in (self.inherited, self.heads or self.inherited):  # of units or of heads, the smaller one
            read, shares = len(inherited.by_layer), inherited.by_layer[list(inherited.layers)]
            depth = read + self.depth - len(self.layers[1])
            if read == depth:
                bounds.append(inherited.least)
            elif not len(shares):
                bounds.append(0.0)
            else:
                bound = measure.at_least(len(shares), read, depth) / depth
                bounds.append(bound * max(0.0, float(shares.mean()) - inherited.error))
        return min(bounds)


@dataclass(frozen=True)
class OrderSettings:
    """Settings of the test of the order of units, and of drawing units."""

    first: int  # permutations that are drawn at first
    seed: int
    tests: int = 1
    permuted: int = MOST_UNITS  # units of a layer that are permuted at most


def compare_units(
    base: Layers, candidate: Layers, depth: int, coordinates: Coordinates, test: OrderSettings
) -> UnitComparison:
    """Return what two models show unit by unit, given the layers of each that were read, by their numbers."""
    numbers = tuple(sorted(base)), tuple(sorted(candidate))
    bases, others = [base[number] for number in numbers[0]], [candidate[number] for number in numbers[1]]
    loud, heavy = (  # layers are paired by the units that write most
        [rows.select(np.argsort(-rows.weight, kind="stable")[:most]) for rows in some]
        for some, most in ((bases, 1024), (others, 64))
    )
    alike = np.array([[_alike(mine, other) for other in heavy] for mine in loud])
    rows, columns = assign(alike)
    partners, groups = in_order(alike).tolist(), copies(others)
    weights = np.full(len(others), 1 / max(len(others), 1))
    experts: list[MatchedUnits] = []
    for column, row in sorted(zip(columns.tolist(), rows.tolist(), strict=True)):
        weight = float(weights[column])
        experts += by_expert(bases[row], others[column], groups[column], weight, test.seed, test.permuted)
    inherited = inherited_share(bases, others, partners, weights, test.seed)
    order = order_test(experts, test.first, test.seed)
    kept_share, pairs = min(layer.kept_share for layer in (*bases, *others)), tuple(numbers[0][one] for one in partners)
    remains = _remains(others)
    return UnitComparison(coordinates, numbers, depth, pairs, inherited, order, test.tests, kept_share, remains)


def _remains(layers: Sequence[UnitRows]) -> float:
    together = apart = 0.0
    for rows in layers:
        size = float(np.abs(rows.weight).max(initial=0.0)) or 1.0
        weight = (rows.weight / size).astype(np.float32)
        scale = 1 / max(float(weight.sum()), 1.0) ** 2  # the largest is 1, unless all are 0
        together += scale * float(np.square(rows.outer.T @ (rows.inner * weight[:, None]), dtype=np.float64).sum())
        lengths = np.vecdot(rows.outer, rows.outer) * np.vecdot(rows.inner, rows.inner)
        apart += scale * float((weight.astype(np.float64) ** 2) @ lengths)
    return float(np.sqrt(together / apart)) if apart > 0 else 1.0


def _alike(base: UnitRows, candidate: UnitRows) -> float:
    total = candidate.weight.sum()
    best = likeness(candidate, base).max(axis=1, initial=0.0).astype(np.float64)
    return float(best @ candidate.weight / total) if total > 0 else 0.0


def judge_units(comparison: UnitComparison, criteria: Criteria) -> Verdict:
    """Return the verdict on what two models show unit by unit."""
    significant = comparison.p_value is not None and comparison.p_value <= criteria.alpha
    heads = comparison.heads
    few = f"only {heads.share:.0%} of what its heads write" if heads and heads.least <= criteria.min_share else ""
    code, reason = (_exact if significant else _by_share)(comparison, criteria, few)
    return replace(as_related(code, reason, criteria), unit_comparison=comparison)


def _by_share(comparison: UnitComparison, criteria: Criteria, few: str) -> tuple[Code, str]:
    share = comparison.inherited.share
    if comparison.coordinates.name != RESIDUAL and comparison.least > max(HALF, criteria.min_share):
        return Code.CALIBRATED, (
            f"{share:.0%} of what its units write is inherited, but in another order than in the base: {UNDONE}, and "
            f"units were moved; none of {PAIRS:,} pairs of independent models has more than {LARGEST:.0%}"
        )
    if share > CALIBRATED * comparison.kept_share:
        part = "" if comparison.kept_share == 1 else f" ({comparison.kept_share:.0%} of the units were compared)"
        return Code.INCONCLUSIVE, (
            f"{share:.0%} of what its units write is found in the base{part}, seen {through(comparison)}: more than "
            f"independent models have in common, but {few or 'too little to call it related'}"
        )
    if comparison.remains < CANCELLED:
        most = "most of what its hidden units write is cancelled by other units of the same layer"
        return Code.INCONCLUSIVE, f"{most}; the units do not tell what the model computes"
    return Code.UNRELATED, ""


def _exact(comparison: UnitComparison, criteria: Criteria, few: str) -> tuple[Code, str]:
    share, layers = comparison.inherited.share, [comparison.layers[1][row] for row in comparison.inherited.layers]
    undone = f"{UNDONE}: " if comparison.coordinates.name != RESIDUAL else ""
    ordered = f"{undone}{share:.0%} of what its units write is inherited, in the order of the base"
    if comparison.least > criteria.min_share:
        return Code.INHERITED, ordered
    if layers or share > CHANCE:
        where = f", in {name_layers(layers)}" if layers else ", in no layer more than half"
        return Code.PART, f"{ordered}{where}{few and f', but {few}'}"
    return Code.INCONCLUSIVE, (
        f"the order of its hidden units agrees with that of the base, but only {share:.1%} of what they write is "
        "inherited; a few copied units or a common initialisation can cause that"
    )


def through(comparison: UnitComparison) -> str:
    """Return how the units were compared, as a phrase."""
    return THROUGH[comparison.coordinates.name].format(comparison.coordinates)
