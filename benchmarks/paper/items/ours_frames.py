"""`ours:frames`: what independent models show unit by unit, through the tokens that both know or in fitted coordinates.

The threshold of calibrated evidence is from here, and so is the proof that the test of the order of units holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import kstest

from benchmarks.paper.experiment import Bench, Experiment, claim
from benchmarks.paper.parts import independence
from benchmarks.paper.parts.adapters import Family, Workshop
from benchmarks.paper.parts.frames import Seen, all_pairs, forgetful, narrowed, population, seen, turned
from benchmarks.paper.parts.independence import LARGEST, LEVELS
from benchmarks.paper.parts.results import Row
from hf_lineage.evidence.unit_comparison import CALIBRATED

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
FEW = {Family("Llama", 32, 2, 60): 2, Family("GPT-2", 48, 2, 60): 2}
"""For the smallest scale."""
SMALL = Family("Llama", 32, layers=2, steps=60)
ALPHA = 0.01
PAIRS = "independent pairs"
WIDE = "independent pairs of unlike width"
UNIFORM = "pairs that share no model: p of the Kolmogorov-Smirnov test"
NARROWER, RETRAINED = (0.75, 0.5), 400
"""The shares of the residual coordinates that narrowed models keep, and the steps that they are trained on."""


def rows(bench: Bench) -> Sequence[Row]:
    """Return what independent models show, and what models show whose residual stream was changed."""
    workshop = Workshop.of(bench)
    families = bench.sized(FEW, FAMILIES, FAMILIES)
    permutations = bench.sized(199, 999, 999)
    models = population(workshop, families)
    found = {(a, b): seen(workshop, models[a], models[b], permutations) for a, b in all_pairs(models)}
    return [
        *independent(found, families),
        uniform(bench, workshop, permutations),
        *changed(bench, workshop, [family for family in families if family.architecture == "Llama"]),
    ]


def independent(found: Mapping[tuple[int, int], Seen], families: Mapping[Family, int]) -> Iterator[Row]:
    """Yield how many pairs there are, the largest shares, and how often the test of the order rejects."""
    each = [family for family, count in families.items() for _ in range(count)]
    kinds = ", ".join(f"{count} {one.name}, {one.layers} layers" for one, count in families.items())
    yield Row(PAIRS, None, len(found), f"of {len(each)} models: {kinds}")
    yield Row(WIDE, None, sum(each[a].width != each[b].width for a, b in found))
    yield from independence.shown(found, len(each))


def uniform(bench: Bench, workshop: Workshop, permutations: int) -> Row:
    """Return whether p is uniform over pairs in which no model occurs twice."""
    count = bench.sized(2, 60, 60)
    bases = [workshop.base(SMALL, number) for number in range(2 * count)]
    p_values = [seen(workshop, a, b, permutations).p_value for a, b in zip(bases[::2], bases[1::2], strict=True)]
    measured = kstest(p_values, "uniform")
    note = f"{count} pairs of {2 * count} models; largest distance {measured.statistic:.3f}"
    return Row(UNIFORM, None, float(measured.pvalue), note)


def changed(bench: Bench, workshop: Workshop, families: Sequence[Family]) -> Iterator[Row]:
    """Yield what every Llama shows beside its changed copies: the least share, and the largest p."""
    permutations, steps = bench.sized((199, 20), *[(999, RETRAINED)] * 2)
    edits: dict[str, list[Seen]] = {}
    for base in (workshop.base(family, 0) for family in families):
        for name, candidate in copies(workshop, base, steps):
            edits.setdefault(name, []).append(seen(workshop, base, candidate, permutations))
    for name, found in edits.items():
        shares, p_values = [one.share for one in found], [one.p_value for one in found]
        yield Row(
            f"{name}: least share inherited", None, min(shares), f"{len(found)} Llamas, median {np.median(shares):.3f}"
        )
        yield Row(f"{name}: largest p of the order", None, max(p_values))


def copies(workshop: Workshop, base: Path, steps: int) -> Iterator[tuple[str, Path]]:
    """Yield the changed copies of a Llama, by what was done to them."""
    yield "rotated", turned(workshop, base, shuffled=False)
    yield "rotated, units shuffled", turned(workshop, base, shuffled=True)
    yield "rotated, units shuffled, tokens forgotten", forgetful(workshop, base)
    width = int(json.loads((base / "config.json").read_text())["hidden_size"])
    for share in NARROWER:
        yield f"narrowed to {share:.0%} and retrained", narrowed(workshop, base, int(width * share), steps)


def holds(rows: Mapping[str, Row]) -> None:
    """No independent pair has a share near the threshold, and the test rejects as often as alpha says."""
    claim(rows[LARGEST].number < CALIBRATED, f"an independent pair inherits {rows[LARGEST].number:.3f}")
    for alpha in LEVELS:
        low = rows[f"independent pairs rejected at {alpha}: lower end"].number
        claim(low <= alpha, f"independent pairs are rejected at {alpha} in at least {low:.3f} of the cases")
    claim(rows[UNIFORM].number >= ALPHA, "p of independent pairs is not uniform")
    claim(rows["rotated: least share inherited"].number > 0.99, "a rotation hides inherited units")
    claim(rows["rotated: largest p of the order"].number <= ALPHA, "a rotation hides the order of units")
    for more in ("", ", tokens forgotten"):
        least = rows[f"rotated, units shuffled{more}: least share inherited"].number
        claim(least > 0.99, f"a shuffle{more} hides inherited units: {least:.2f}")


EXPERIMENTS = (Experiment("ours:frames", "models seen unit by unit through their tokens", rows, holds),)
