"""`ours:frames`: what independent models show unit by unit, through the tokens that both know or in fitted coordinates.

The threshold of calibrated evidence is from here, and so is the proof that the test of the order of units holds.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kstest

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.adapters import Family, Workshop
from benchmarks.paper.parts.cache import digest
from hf_lineage.checking.units import compare_by_units
from hf_lineage.evidence.unit_comparison import CALIBRATED, PROCRUSTES, TOKEN, OrderSettings
from hf_lineage.hub.repo import resolve
from hf_lineage.source.headers import Headers, headers

STEPS = 600
FAMILIES = {
    Family("Llama", 32, 4, STEPS): 7,
    Family("Llama", 48, 4, STEPS): 6,
    Family("Llama", 64, 4, STEPS): 4,
    Family("Llama", 64, 6, STEPS): 3,
    Family("Llama", 96, 3, STEPS): 3,
    Family("Llama", 96, 4, STEPS): 3,
    Family("Llama", 128, 4, STEPS): 3,
    Family("GPT-2", 48, 4, STEPS): 6,
    Family("GPT-2", 64, 4, STEPS): 5,
    Family("GPT-2", 96, 4, STEPS): 2,
    Family("GPT-2", 128, 6, STEPS): 2,
    Family("BERT", 64, 4, STEPS): 2,
}
"""Independent models of each."""
FEW = {Family("Llama", 32, 2, 60): 2, Family("GPT-2", 48, 2, 60): 2}  # for the smallest scale
SMALL = Family("Llama", 32, layers=2, steps=60)
ALPHA = 0.01
PAIRS = "independent pairs"
WIDE = "independent pairs of unlike width"
UNIFORM = "pairs that share no model: p of the Kolmogorov-Smirnov test"
LEVELS = (0.01, 0.05)
LARGEST = "independent pairs: largest share inherited"
FITTED = "independent pairs that show most in fitted coordinates"
MEASURED = 7  # raised when what the library measures comes to mean something else
DRAWN = 2000  # how often whole models are drawn again for an interval


@dataclass(frozen=True)
class Seen:
    """What two models show unit by unit."""

    share: float
    p_value: float
    z: Mapping[str, float]
    frame: str  # in which coordinates


def seen(workshop: Workshop, base: Path, candidate: Path, permutations: int) -> Seen:
    """Return what all layers of two models show, first through the tokens that both know: here the 256 bytes."""

    def measure() -> dict[str, Any]:
        layers = [range(opened(candidate).layout.layers)]
        framed = compare_by_units(opened(base), opened(candidate), layers, TOKEN, OrderSettings(permutations, seed=0))
        order = framed.order
        z = dict(order.z) if order else {}
        return asdict(Seen(framed.inherited.share, order.p_value if order else 1.0, z, framed.coordinates.name))

    return Seen(**workshop.cache.kept("frames", [MEASURED, digest(base), digest(candidate), permutations], measure))


@functools.cache
def opened(folder: Path) -> Headers:
    return headers(resolve(str(folder)))


def rows(bench: Bench) -> Sequence[Row]:
    """Return what independent models show."""
    workshop = Workshop.of(bench)
    families = bench.sized(FEW, FAMILIES)
    permutations = bench.sized(199, 999)
    each = [family for family, count in families.items() for _ in range(count)]
    models = [workshop.base(family, number) for family, count in families.items() for number in range(count)]
    found = {(a, b): seen(workshop, models[a], models[b], permutations) for a, b in combinations(range(len(models)), 2)}
    kinds = ", ".join(f"{count} {one.name}, {one.layers} layers" for one, count in families.items())
    return [
        Row(PAIRS, None, len(found), f"of {len(each)} models: {kinds}"),
        Row(WIDE, None, sum(each[a].width != each[b].width for a, b in found)),
        *independent(found, len(each)),
        uniform(bench, workshop, permutations),
    ]


def independent(found: Mapping[tuple[int, int], Seen], models: int) -> Iterator[Row]:
    """Yield the largest shares of pairs of so many models, and how often the test of the order rejects."""
    shares = sorted((one.share for one in found.values()), reverse=True)
    yield Row(LARGEST, None, shares[0], f"the next {shares[1]:.4f} and {shares[2]:.4f}")
    fitted = [one.share for one in found.values() if one.frame == PROCRUSTES]
    yield Row(FITTED, None, len(fitted), f"their largest share {max(fitted, default=0.0):.4f}")
    for alpha in LEVELS:
        rejected = {pair: one.p_value <= alpha for pair, one in found.items()}
        low, high = interval(rejected, models)
        name = f"independent pairs rejected at {alpha}"
        drawn = f"95 % interval {low:.4f} to {high:.4f}, whole models drawn again"
        yield Row(
            name, None, float(np.mean(list(rejected.values()))), f"{sum(rejected.values())} of {len(found)}; {drawn}"
        )
        yield Row(f"{name}: lower end", None, low)


def interval(found: Mapping[tuple[int, int], bool], models: int) -> tuple[float, float]:
    """Return a 95 % interval of the share of pairs for which something holds, whole models drawn again."""
    table = np.zeros((models, models))
    for pair, holds in found.items():
        table[pair] = holds
    pairs = np.triu(np.ones_like(table), 1)
    random = np.random.default_rng(0)
    counts = random.multinomial(models, np.full(models, 1 / models), size=DRAWN).astype(float)
    drawn, of = (np.einsum("ni,ij,nj->n", counts, some, counts) for some in (table, pairs))
    low, high = np.quantile(drawn[of > 0] / of[of > 0], (0.025, 0.975)).tolist()
    return low, high


def uniform(bench: Bench, workshop: Workshop, permutations: int) -> Row:
    """Return whether p is uniform over pairs in which no model occurs twice."""
    count = bench.sized(2, 60)
    bases = [workshop.base(SMALL, number) for number in range(2 * count)]
    p_values = [seen(workshop, a, b, permutations).p_value for a, b in zip(bases[::2], bases[1::2], strict=True)]
    measured = kstest(p_values, "uniform")
    note = f"{count} pairs of {2 * count} models; largest distance {measured.statistic:.3f}"
    return Row(UNIFORM, None, float(measured.pvalue), note)


def holds(rows: Mapping[str, Row]) -> None:
    """No independent pair has a share near the threshold, and the test rejects as often as alpha says."""
    claim(rows[LARGEST].number < CALIBRATED, f"an independent pair inherits {rows[LARGEST].number:.3f}")
    for alpha in LEVELS:
        low = rows[f"independent pairs rejected at {alpha}: lower end"].number
        claim(low <= alpha, f"independent pairs are rejected at {alpha} in at least {low:.3f} of the cases")
    claim(rows[UNIFORM].number >= ALPHA, "p of independent pairs is not uniform")


EXPERIMENTS = (Experiment("ours:frames", "independent models seen unit by unit", rows, holds),)
