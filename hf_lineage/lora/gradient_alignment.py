"""The trace that a base leaves in an adapter trained on it, an exact test for it, and the verdict.

A LoRA adds B A to a matrix. B is made of gradients of the base, which passed through the matrix that reads a row's
output. With an independent base, rows may be permuted within exchangeable groups (hidden units, dimensions of a head,
residual coordinates), or flipped with what reads them; those of a gate or behind an activation are permuted within
strata of similar size. p is the larger of two exact ones, each valid under its assumption.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.evaluate import as_related
from hf_lineage.evidence.measure import DOUBTFUL
from hf_lineage.evidence.p_values import not_below, standardise
from hf_lineage.evidence.unit_order import Numbers, orders_within, strata_of
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.lora.adjacent_matrices import Block
from hf_lineage.signature.recipe import Array, Vector, random_stream

# Role -> the least z of adapters on their own base, over the root of the number of directions (`ours:adapters` of the
# benchmarks); 0 if not measured.
LEAST = {"value": 1.2, "output": 0.5, "down": 1.1, "up": 0.5, "gate": 0.0, "query": 2.5, "key": 2.5, "latent": 0.0}
WHOLE, FADED = 0.1, 0.3  # relative size of what is added at which a trace is whole, and at which nothing is left of it
ROUNDING = 1e-4  # statistics that differ by less than this part of a deviation are equal: they are sums in float32
FLIPPED = 16  # fewer rows have too few patterns of signs: they are permuted alone
BATCH = 64  # permutations and flips that are drawn at a time, to bound the memory
POWER = 0.99  # UNRELATED needs a test that detects a trace with this probability
VERIFIED = 0.001  # the largest p that verifies: a share alpha of adapters is RELATED by chance, too much for a card
FIRST, MOST = 1_999, 9_999  # the fewest permutations at first, and how many if these do not decide, by interim analysis


@dataclass(frozen=True)
class Trace:
    """The test of one adapter against one base."""

    roles: tuple[str, ...]
    layers: tuple[int, ...]  # the role and the layer of every block, (b,)
    ratios: Vector  # (n + 1, b): the statistic of every block, first as observed and then under each permutation
    directions: Vector  # the effective number of directions of every block, (b,)
    sizes: Vector  # the size of what every block adds, relative to the base, (b,)
    seed: int
    analyses: int = 1  # number of interim analyses, for which p is corrected (Bonferroni)
    calibrated: bool = True  # whether the power was measured on adapters like this one
    spent: float = 0.0  # amount that is added to p because the test could have ended after fewer permutations
    flipped: Vector | None = None  # as `ratios` under flips, or permutations where a block allows none; None: no block

    @property
    def permutations(self) -> int:
        """Number of permutations that were drawn."""
        return len(self.ratios) - 1

    @functools.cached_property
    def by_role(self) -> Mapping[str, Vector]:
        """The sum over the blocks of each role under permutations, (n + 1,), standardised."""
        return self._halves[0]

    @functools.cached_property
    def _halves(self) -> Sequence[Mapping[str, Vector]]:
        # Means and deviations include the observed value, so that all values contribute equally to them.
        halves = list[Mapping[str, Vector]]()
        for ratios in (self.ratios, self.ratios if self.flipped is None else self.flipped):
            sums = {one: ratios[:, np.array(self.roles) == one].sum(axis=1) for one in dict.fromkeys(self.roles)}
            halves.append({role: standardise(values, values) for role, values in sums.items()})
        return halves

    def power(self, alpha: float) -> float:
        """Return the probability of p <= alpha, at least, if the adapter was trained on this base, as calibrated."""
        return NormalDist().cdf(self.predicted_effect - self.critical(alpha)) if self.calibrated else 0.0

    def critical(self, alpha: float) -> float:
        """Return the effect at which p reaches alpha if the statistics are normally distributed."""
        several = len(self.by_role) > 1  # the sum over all roles is one more statistic
        return -NormalDist().inv_cdf(alpha / (len(self.by_role) + several) / self.analyses)

    @functools.cached_property
    def predicted_effect(self) -> float:
        """The least effect of an adapter of this rank and size in these matrices, trained on this base."""
        left = np.clip((FADED - self.sizes) / (FADED - WHOLE), 0.0, 1.0)
        energy = self.directions * left**2
        reached = np.array([LEAST[one] * np.sqrt(energy[np.array(self.roles) == one].sum()) for one in self.by_role])
        return float(max(reached.max(), reached.sum() / np.sqrt(len(reached))))

    @functools.cached_property
    def p_values(self) -> tuple[float, ...]:
        """The p-values by permutations and by flips of the largest statistic of all roles (Westfall and Young 1993)."""
        p_values = []
        for half in self._halves:
            each = np.array(list(half.values()))
            total = each.sum(axis=0)
            p_values.append(_p_value(np.maximum(each.max(axis=0), standardise(total, total))))
        return tuple(min(1.0, self.analyses * p_value + self.spent) for p_value in p_values)

    @property
    def p_value(self) -> float:
        """The larger of the two p-values: valid where the assumption of either holds."""
        return max(self.p_values)

    def p_of(self, role: str) -> float:
        """Return the p-value of one role by itself, without any correction."""
        return max(_p_value(half[role]) for half in self._halves)

    def z_of(self, role: str) -> float:
        """Return by how many deviations of its permutations one role lies above their mean, as power is predicted."""
        return _above(self.ratios[:, np.array(self.roles) == role].sum(axis=1))

    @functools.cached_property
    def z_of_blocks(self) -> Vector:
        """(b,): the same for every block; a picture of where the trace is, not a test."""
        return np.array([_above(column) for column in self.ratios.T])

    @functools.cached_property
    def effect(self) -> float:
        """The largest effect of a role, bounded by the median of its matrices, or of all, in deviations."""
        each = []
        for role in self.by_role:
            zs = self.z_of_blocks[np.array(self.roles) == role]
            each.append(min(self.z_of(role), float(np.quantile(zs, 0.5, method="lower") * np.sqrt(len(zs)))))
        total = _above(np.sum(list(self.by_role.values()), axis=0))
        return float(max(*each, min(total, np.sum(each) / np.sqrt(len(each)))))


def _above(values: Vector) -> float:
    deviation = float(values[1:].std())
    return float(values[0] - values[1:].mean()) / deviation if deviation > 0 else 0.0


def _p_value(values: Vector) -> float:
    # What rounding alone separates counts as equal.
    return (1 + not_below(values[0] - ROUNDING * max(1.0, abs(values[0])), values[1:])) / len(values)


def trace(blocks: Sequence[Block], permutations: int, seed: int, analyses: int = 1) -> Trace:
    """Return the test over some blocks, each of which has a product that is not zero."""
    # One element serves all groups, layers and roles with rows of one kind and number: these are a part of all that the
    # null allows, and a test under a part of them is exact as well.
    permuted, flipped = np.empty((2, permutations + 1, len(blocks)))
    kinds: dict[tuple[str, int], list[int]] = {}
    for column, one in enumerate(blocks):
        kinds.setdefault((one.permuted, one.rows.shape[1]), []).append(column)
    for (kind, rows), columns in kinds.items():
        sizes = np.sqrt(np.sum([blocks[column].energies for column in columns], axis=0))
        free = all(blocks[column].flips for column in columns)
        sets = [np.arange(rows)] if free else strata_of(sizes[None])
        for part, orders, signs in _elements(f"{kind} {rows}", sets, permutations, seed):
            orders_used = np.arange(rows)[None] if free else orders
            for column in columns:
                permuted[part, column] = flipped[part, column] = _ratios(blocks[column], orders)
                if rows >= FLIPPED and blocks[column].flips:
                    flipped[part, column] = _ratios(blocks[column], orders_used, signs)
    roles, layers = tuple(one.role for one in blocks), tuple(one.layer for one in blocks)
    directions, added = np.array([one.directions for one in blocks]), np.array([one.size for one in blocks])
    return Trace(roles, layers, permuted, directions, added, seed, analyses, flipped=flipped)


def _elements(kind: str, sets: Sequence[Numbers], count: int, seed: int) -> Iterator[tuple[slice, Numbers, Array]]:
    """Yield some elements at a time, permutations within sets of rows and signs of the rows: first the neutral one."""
    rows = sum(map(len, sets))
    yield slice(1), np.arange(rows)[None], np.ones((1, rows), np.float32)
    permuting, flipping = (random_stream(f"adapter {half} {kind} {seed}") for half in ("permutations", "signs"))
    for start in range(1, count + 1, BATCH):
        drawn = min(BATCH, count + 1 - start)
        signs = 1 - 2 * (flipping.random_raw(drawn * rows).reshape(drawn, rows) & 1).astype(np.float32)
        yield slice(start, start + drawn), orders_within(sets, drawn, permuting), signs


def _ratios(one: Block, orders: Numbers, signs: Array | None = None) -> Vector:
    """Return the statistic of a block under some permutations of its rows (b, n), and signs (b, n), over a constant."""
    # It is ‖P W‖² - Σ ‖p_i‖² ‖w_i‖² with B A = U Σ Vᵀ and W = U Σ^½: P is the matrix that the gradient passed through.
    # What is subtracted depends on the sizes of rows alone, which sorted rows have in common. The product alone counts:
    # no change of basis between the factors can move it, nor columns of B that A never uses.
    # Means over rows are removed from `through`. Permutations leave them as they are, so that they are removed from
    # `rows` too; signs do not, so that they have to be multiplied before.
    groups, n, _ = one.rows.shape
    written = one.centred_rows if signs is None else one.rows
    squares = [np.sum(np.square(side, dtype=np.float64), axis=axis) for side, axis in ((written, 2), (one.through, 1))]
    expected = float(np.multiply(*(side.sum(axis=1) for side in squares)).sum()) / n
    sums = np.zeros(len(orders if signs is None else signs))
    for group in range(groups):
        # All permutations are one large product, which BLAS computes many times as fast as many narrow ones.
        moved = written[group].take(orders.T, axis=0)
        moved = moved if signs is None else moved * signs.T[..., None]
        products = (one.through[group] @ moved.reshape(n, -1)).reshape(-1, len(sums), moved.shape[2])
        sums += np.einsum("kbq,kbq->b", products, products, dtype=np.float64)
        sums -= squares[0][group][orders] @ squares[1][group]
    return sums / expected if expected > 0 else np.ones(len(sums))


def measure_trace(blocks: Sequence[Block], criteria: Criteria) -> Trace:
    """Return the test over some blocks, with as many permutations as its p-value needs."""
    # The first permutations end the test if p is above alpha, or at most half of the level at which a claim is
    # verified. Else more are drawn, p is that of all of them, and the half that an early end may have taken is added.
    # So independent pairs are verified with that level at most, and RELATED with alpha at most.
    first, most = (criteria.tests * (number + 1) - 1 for number in (FIRST, MOST))
    first = max(first, criteria.permutations_at_first())
    measured = trace(blocks, first, criteria.seed, criteria.analyses)
    spent = level(criteria.alpha) / 2
    if first >= most or not spent < measured.p_value <= criteria.alpha:
        return measured
    return replace(trace(blocks, most, criteria.seed, criteria.analyses), spent=spent)


def level(alpha: float) -> float:
    """Return the largest p that verifies a claim."""
    return min(alpha, VERIFIED)


def least_effect(measured: Trace, alpha: float) -> float:
    """Return the least effect that verifies, large enough whatever size and rank the author has chosen."""
    return max(measured.predicted_effect, measured.critical(level(alpha)) + NormalDist().inv_cdf(POWER))


def judge_trace(trace: Trace, criteria: Criteria, order_matters: str = "") -> Verdict:
    """Return the verdict on an adapter and a base; `order_matters` names an initialisation for which no null holds."""
    if order_matters:
        depends = f"the adapter started from {order_matters}, which depends on the order of the rows of the base"
        code, reason = Code.INCONCLUSIVE, f"{depends}, so the permutation null does not hold"
    elif trace.p_value <= criteria.alpha:
        highest, least, doubts = level(criteria.alpha), least_effect(trace, criteria.alpha), list[str]()
        if trace.p_value > highest:
            doubts.append(f"p is {trace.p_value:.2g}, and at most {highest:g} verifies")
        if not trace.effect >= least:
            doubts.append(f"the effect is {trace.effect:.1f} standard deviations, and at least {least:.1f} verify")
        weak = f"the adapter shows a trace of this base, but a weak one: {'; '.join(doubts)}"
        near = "it was trained on it or a near relative, or extracted from a difference to it"
        whole = f"the adapter carries the trace of this base: {near}"
        code, reason = (Code.WEAK, weak) if doubts else (Code.ADAPTER, whole)
    else:
        power, calibrated = trace.power(criteria.alpha), trace.calibrated
        code = Code.UNRELATED if calibrated and power >= POWER else Code.INCONCLUSIVE
        if code is Code.UNRELATED:
            predicted = f"a predicted probability {f'of {power:.2f}' if power < 0.995 else 'above 0.99'}"
            why = f"carries no trace of this base; one trained on it would show it with {predicted}"
        elif calibrated:
            would = "with this rank and size in these matrices it would show one only with a predicted probability of"
            why = f"shows no trace of this base; {would} {power:.2f}"
        else:
            why = "shows no trace of this base, but it is not known how strong a trace such adapters show"
        reason = f"the adapter {why}"
    return replace(as_related(code, reason, criteria), trace=trace)


def clear(outcome: Verdict) -> bool:
    """Return whether a verdict on some layers stands, so that the others need not be read."""
    trace = outcome.trace
    unlikely = trace is None or trace.p_value > DOUBTFUL * trace.analyses
    return outcome.verified or trace is None or (outcome.code is Code.UNRELATED and unlikely)
