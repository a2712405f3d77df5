"""`ours:experts`: what independent mixtures of experts show unit by unit, and what changed and upcycled ones show.

The test of the order of units within experts holds for independent models, made by upcycling or not, and the share of
inherited units stays under the threshold of dense models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.stats import kstest

from benchmarks.paper.experiment import Bench, Experiment, claim
from benchmarks.paper.parts import independence
from benchmarks.paper.parts.adapters import Family, Workshop
from benchmarks.paper.parts.experts import Mixture, dense, edited, mixture
from benchmarks.paper.parts.frames import all_pairs, population, seen
from benchmarks.paper.parts.independence import LARGEST, LEVELS
from benchmarks.paper.parts.results import Row
from hf_lineage.evidence.unit_comparison import CALIBRATED

STEPS = 300
MIXTURES = {
    Mixture("Mixtral", 32, 3, 4, STEPS): 6,
    Mixture("Mixtral", 48, 3, 8, STEPS): 4,
    Mixture("Mixtral", 64, 3, 4, STEPS): 2,
    Mixture("Qwen2Moe", 32, 3, 8, STEPS): 3,
    Mixture("Qwen2Moe", 48, 3, 4, STEPS): 3,
    Mixture("Mixtral", 48, 3, 4, STEPS, upcycled=True): 4,
}
"""Independent models of each."""
FEW = {Mixture("Mixtral", 32, 2, 4, 4): 2, Mixture("Mixtral", 32, 2, 4, 4, upcycled=True): 1}
"""For the smallest scale."""
DENSE = {Family("Llama", 32, 3, STEPS): 1, Family("Llama", 48, 3, STEPS): 1}
"""Dense models beside them."""
SMALL = {
    "fresh": Mixture("Mixtral", 32, 2, 4, 40),
    "shared expert": Mixture("Qwen2Moe", 32, 2, 4, 40),
    "upcycled": Mixture("Mixtral", 32, 2, 4, 40, upcycled=True),
}
"""Models of which as many are made as the distribution of p needs."""
ALPHA = 0.01
PAIRS = "independent pairs"
UNIFORM = "pairs that share no model: p of the Kolmogorov-Smirnov test"
EDITS = (("rotated",), ("reordered", "rotated"), ("shuffled", "reordered", "rotated"))
UPCYCLED = "upcycled, beside its dense base"


def rows(bench: Bench) -> Sequence[Row]:
    """Return what independent mixtures show, how p is distributed, and what descendants show."""
    workshop = Workshop.of(bench)
    kinds, few = bench.sized((FEW, {}), *[(MIXTURES, DENSE)] * 2)
    permutations = bench.sized(199, 999, 999)
    return [
        *independent(workshop, kinds, few, permutations),
        *distributed(bench, workshop, permutations),
        *descended(workshop, list(kinds), permutations),
    ]


def independent(
    workshop: Workshop, kinds: Mapping[Mixture, int], few: Mapping[Family, int], permutations: int
) -> Iterator[Row]:
    """Yield how many pairs there are, the largest shares, and how often the test of the order rejects."""
    models = [mixture(workshop, kind, number) for kind, count in kinds.items() for number in range(count)]
    models += population(workshop, few)
    found = {(a, b): seen(workshop, models[a], models[b], permutations) for a, b in all_pairs(models)}
    each = ", ".join(f"{count} {name}" for name, count in _named(kinds, few))
    yield Row(PAIRS, None, len(found), f"of {len(models)} models: {each}")
    yield from independence.shown(found, len(models))


def _named(kinds: Mapping[Mixture, int], few: Mapping[Family, int]) -> Iterator[tuple[str, int]]:
    yield from ((kind.name, count) for kind, count in kinds.items())
    yield from ((f"{family.name}, {family.layers} layers", count) for family, count in few.items())


def distributed(bench: Bench, workshop: Workshop, permutations: int) -> Iterator[Row]:
    """Yield whether p is uniform over pairs in which no model occurs twice, for each kind of models."""
    count = bench.sized(1, 30, 60)
    for name, kind in SMALL.items():
        models = [mixture(workshop, kind, number) for number in range(2 * count)]
        p_values = [seen(workshop, a, b, permutations).p_value for a, b in zip(models[::2], models[1::2], strict=True)]
        measured = kstest(p_values, "uniform")
        note = f"{count} pairs of {2 * count} models; largest distance {measured.statistic:.3f}; "
        note += ", ".join(f"{np.mean(np.array(p_values) <= level):.3f} at most {level}" for level in LEVELS)
        yield Row(f"{name}, {UNIFORM}", None, float(measured.pvalue), note)


def descended(workshop: Workshop, kinds: Sequence[Mixture], permutations: int) -> Iterator[Row]:
    """Yield what mixtures show beside their edited copies, and upcycled ones beside their dense bases."""
    bases = [mixture(workshop, kind, 0) for kind in kinds]
    shown = {
        ", ".join(changes): [seen(workshop, base, edited(workshop, base, *changes), permutations) for base in bases]
        for changes in EDITS
    }
    upcycled = [kind for kind in kinds if kind.upcycled]
    shown[UPCYCLED] = [
        seen(workshop, dense(workshop, kind, 0), mixture(workshop, kind, 0), permutations) for kind in upcycled
    ]
    for name, found in shown.items():
        shares = [one.share for one in found]
        note = f"{len(found)} models, median {np.median(shares):.3f}"
        yield Row(f"{name}: least share inherited", None, min(shares), note)
        yield Row(f"{name}: largest p of the order", None, max(one.p_value for one in found))


def holds(rows: Mapping[str, Row]) -> None:
    """No independent pair has a share near the threshold, p is uniform, and descendants are found."""
    claim(rows[LARGEST].number < CALIBRATED, f"an independent pair inherits {rows[LARGEST].number:.3f}")
    for alpha in LEVELS:
        low = rows[f"independent pairs rejected at {alpha}: lower end"].number
        claim(low <= alpha, f"independent pairs are rejected at {alpha} in at least {low:.3f} of the cases")
    for name in SMALL:
        claim(rows[f"{name}, {UNIFORM}"].number >= ALPHA, f"p of independent pairs is not uniform: {name}")
    for changes in EDITS:
        name = ", ".join(changes)
        claim(rows[f"{name}: least share inherited"].number > 0.99, f"{name}: inherited units are hidden")
    for name in map(", ".join, EDITS[:2]):
        claim(rows[f"{name}: largest p of the order"].number <= ALPHA, f"{name}: the order of units is hidden")
    claim(rows[f"{UPCYCLED}: largest p of the order"].number <= ALPHA, "upcycling hides the order of units")


EXPERIMENTS = (Experiment("ours:experts", "mixtures of experts seen unit by unit", rows, holds),)
