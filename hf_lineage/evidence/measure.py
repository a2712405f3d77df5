"""Measurement: two signatures to the evidence along every path, and after how many layers reading may stop.

A few layers show a descendant as well as all do. Evidence is analysed at a fixed number of points, each time with an
exact test at alpha over that number (Bonferroni): all together call independent models RELATED with probability alpha
at most. The order is drawn anew for every run: whoever could predict it could copy only the layers read first.
"""

import math
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from hf_lineage.errors import SignatureError
from hf_lineage.evidence.comparison import compare_paths
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.inherited import inherited_units
from hf_lineage.evidence.permutation import Null, PermutationNull, sequential_nulls
from hf_lineage.evidence.verdict import Evidence
from hf_lineage.signature.recipe import random_stream
from hf_lineage.signature.values import PathSignature, Signature

FEWEST_LAYERS = 8  # models of fewer layers are read completely, without interim analyses
DOUBTFUL = 0.1  # with an uncorrected p-value up to this, more layers are read before the verdict is UNRELATED
GRAFT = 0.25  # UNRELATED reads enough layers to miss a copy of this share of them with probability MISSED at most
MISSED = 0.01  # the probability that copied layers are not among those read, and that a bound on unread layers is wrong
Layers = tuple[tuple[int, ...], tuple[int, ...]]  # numbers of layers, of the base and of the candidate


def drawn_seed() -> int:
    """Return a seed for the order of layers that nobody can foresee."""
    return secrets.randbelow(2**32)


def reading_order(layers: int, seed: int) -> tuple[int, ...]:
    """Return the layers in an order drawn at random, the same on every platform for one seed.

    >>> reading_order(8, seed=0)
    (3, 0, 7, 2, 1, 6, 4, 5)
    """
    words = random_stream(f"order of layers {seed}").random_raw(layers)
    return tuple(int(layer) for layer in np.argsort(words, kind="stable"))


def at_least(inherited: int, read: int, layers: int) -> int:
    """Return a lower bound on how many of all layers are inherited, from those that were read (one-sided, 99 %).

    Suppose K layers are inherited, and `read` layers are drawn without replacement. The bound is the least K for which
    at least `inherited` of these are among the K with a probability above MISSED (inverse hypergeometric distribution).

    >>> at_least(6, read=6, layers=32), at_least(32, read=32, layers=32)
    (17, 32)
    """
    everything = math.comb(layers, read)
    for among in range(inherited, layers + 1):
        hits = range(inherited, min(read, among) + 1)
        if sum(math.comb(among, hit) * math.comb(layers - among, read - hit) for hit in hits) > MISSED * everything:
            return among
    return layers


def fewest(layers: int, share: float) -> int:
    """Return how many layers, all of them inherited, show that more than this share of all layers is inherited.

    >>> [fewest(layers, 0.5) for layers in (12, 24, 32, 80)]
    [5, 6, 6, 7]
    """
    return next((read for read in range(1, layers) if at_least(read, read, layers) > share * layers), layers)


def enough(layers: int) -> int:
    """Return how many layers UNRELATED needs: t of them miss g copied ones with probability C(L - g, t) / C(L, t)."""
    rest, counts = layers - graft(layers), range(1, layers + 1)
    return next(read for read in counts if math.comb(rest, read) <= MISSED * math.comb(layers, read))


def graft(layers: int) -> int:
    """Return how many copied layers are looked for before the verdict is UNRELATED; fewer may be among the unread."""
    return max(1, math.ceil(GRAFT * layers))


def analyses(layers: int, share: float) -> tuple[int, ...]:
    """Return how many layers have been read at each analysis: all at the last, or where too few would be left.

    >>> analyses(32, 0.5), analyses(8, 0.5), analyses(6, 0.5)
    ((6, 13, 32), (5, 8), (6,))
    """
    early = (fewest(layers, share), enough(layers)) if layers >= FEWEST_LAYERS else ()
    return tuple(sorted({*(read for read in early if layers - read >= graft(layers)), layers}))


@dataclass(frozen=True)
class Pair:
    """Both models along one path."""

    path: str
    signatures: tuple[PathSignature, PathSignature]  # signatures of the base and of the candidate
    layers: Layers
    exchangeable: bool = True  # whether both architectures treat all residual coordinates alike

    @classmethod
    def align(cls, path: str, base: Signature, candidate: Signature) -> "Pair":
        """Return the pair of two signatures along a path."""
        both, numbers = (base.paths[path], candidate.paths[path]), (base.numbers(path), candidate.numbers(path))
        return cls(path, both, numbers, base.exchangeable and candidate.exchangeable)

    @property
    def not_finite(self) -> Layers:
        """The numbers of the layers with values that are not finite."""
        both = zip(self.signatures, self.layers, strict=True)
        base, candidate = (tuple(np.array(layers)[~one.finite].tolist()) for one, layers in both)
        return base, candidate


def same_recipe(a: Signature, b: Signature) -> None:
    """Raise SignatureError unless every parameter that changes a number is the same in both signatures."""
    first, second = asdict(a.recipe), asdict(b.recipe)
    unlike = [f"{key} {first[key]} and {second[key]}" for key in first if first[key] != second[key]]
    if unlike:
        raise SignatureError(f"{a.model} and {b.model} differ in recipe ({', '.join(unlike)}); extract both with one")


def measure(pairs: Sequence[Pair], criteria: Criteria) -> dict[str, Evidence]:
    """Return everything that is measured between two models along some paths, by path."""
    # Paths with the same number of test coordinates share their permutations. Each such group of paths gets its part of
    # alpha (Bonferroni), and enough further permutations to reach it.
    groups: dict[tuple[int, bool], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.signatures[0].corner.shape[1], pair.exchangeable), []).append(pair)
    nulls: dict[str, PermutationNull] = {}
    for (_, exchangeable), group in groups.items():
        part = len(group) / len(pairs)
        first = criteria.permutations_at_first(part)
        drawn = sequential_nulls({pair.path: pair.signatures for pair in group}, first, criteria.seed, criteria.at_most)
        for path, null in drawn.items():
            nulls[path] = replace(null, not_exchangeable=not exchangeable, part=part)
    evidence = {}
    for pair in pairs:
        comparison, tried = compare_paths(*pair.signatures), list[Null]([nulls[pair.path]])
        if known := criteria.independent.get(pair.path):
            tried.append(replace(known, observed=comparison.score, alpha=criteria.alpha))
        p_value = next((null for null in tried if not null.objection), tried[-1]).p_over_paths
        inherited = None
        if not any(pair.not_finite):
            inherited = inherited_units(*pair.signatures, comparison, criteria.seed, fewer=p_value > DOUBTFUL)
        corrected, tests = min(1.0, criteria.tests * p_value), (criteria.analyses, criteria.further)
        one = Evidence(comparison, tuple(tried), corrected, pair.layers, *tests, inherited, pair.not_finite)
        evidence[pair.path] = replace(one, sampled=pair.signatures[1].sampled)
    return evidence
