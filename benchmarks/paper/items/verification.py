"""`app:verification`: conformal p-values beside the library's permutation test, which needs no third model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import kstest

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.families import Family
from benchmarks.paper.parts.mlp import survival_families
from benchmarks.paper.parts.plots import lines, panels
from benchmarks.paper.parts.scores import score, signature
from hf_lineage.evidence.p_values import EmpiricalNull
from hf_lineage.evidence.permutation import permutation_null
from hf_lineage.signature.values import PathSignature

LEVEL = 0.1
"""The smallest round one that an empirical null of 15 models can reach."""


@dataclass
class Tests:
    """p-values of some pairs by both nulls."""

    permuted: list[float] = field(default_factory=list)
    conformal: list[float] = field(default_factory=list)

    def share(self, values: Sequence[float]) -> float:
        """Return the share of p-values at or below the level."""
        return float(np.mean(np.asarray(values) <= LEVEL))


@dataclass
class Found:
    """All p-values."""

    related: Tests = field(default_factory=Tests)
    unrelated: Tests = field(default_factory=Tests)
    separate: list[float] = field(default_factory=list)
    """Of pairs of which no two share a model: these are independent of each other."""
    nulls: list[int] = field(default_factory=list)
    """How many models each empirical null is made of."""


def tested(bench: Bench) -> Found:
    """Return the p-values of all pairs. Each stranger is judged by the others of its kind, as the one left out."""
    found = Found()
    permutations = bench.sized(99, 999)
    for family in survival_families(bench):
        reference = signature(family.reference.blocks)
        null = {
            str(number): signature(networks.blocks) for number, networks in enumerate(family.unrelated["independent"])
        }
        scores = {name: score(reference, other) for name, other in null.items()}
        found.nulls.append(len(null))
        for related, name, suspect in suspects(family, null):
            tests = found.related if related else found.unrelated
            rest = {other: value for other, value in scores.items() if other != name}
            tests.conformal.append(EmpiricalNull(rest, "the others", observed=score(reference, suspect)).p_value)
            tests.permuted.append(permutation_null(reference, suspect, permutations, seed=0).p_value)
        found.separate += separate(list(null.values()), permutations)
    return found


def suspects(family: Family, null: Mapping[str, PathSignature]) -> Sequence[tuple[bool, str, PathSignature]]:
    """Return every suspect: whether it is related, its name if it is in the null, and its signature."""
    others = [(pair.related, "", signature(pair.suspect.blocks)) for pair in family.pairs if pair.kind != "independent"]
    return [*others, *((False, name, other) for name, other in null.items())]


def separate(models: Sequence[PathSignature], permutations: int) -> list[float]:
    """Return the p-values of independent models two by two, each in one pair."""
    pairs = zip(models[::2], models[1::2], strict=False)
    return [permutation_null(a, b, permutations, seed=1).p_value for a, b in pairs]


def rows(bench: Bench) -> Sequence[Row]:
    """Return what both tests say of related and of unrelated pairs, and draw their p-values."""
    found = tested(bench)
    draw(bench, found)
    related, unrelated = found.related, found.unrelated
    agree = [
        (one <= LEVEL) == (other <= LEVEL)
        for tests in (related, unrelated)
        for one, other in zip(tests.permuted, tests.conformal, strict=True)
    ]
    floor = 1 / (min(found.nulls) + 1)
    uniform = kstest(found.separate, "uniform")
    return [
        Row("empirical null: models", None, min(found.nulls), "each reference has its own; the paper has 28 at most"),
        Row("empirical null: least possible p", None, floor, "1 / (n + 1): a level below it cannot be had"),
        Row("effective sample size: pairs", 84, len(unrelated.permuted)),
        Row("effective sample size: roots", 3, len(found.nulls), "unrelated pairs of one root share its reference"),
        Row("permutation null: largest p of a related pair", None, max(related.permuted), "no third model is needed"),
        Row(f"permutation null: power at {LEVEL}", None, related.share(related.permuted)),
        Row(f"permutation null: unrelated pairs at p ≤ {LEVEL}", None, unrelated.share(unrelated.permuted)),
        Row("permutation null: separate pairs", None, len(found.separate), "no two of which share a model"),
        Row(
            "permutation null: uniformity, Kolmogorov-Smirnov p", None, float(uniform.pvalue),
            "of the p-values of separate pairs; small would mean that they are not uniform",
        ),
        Row("permutation null: median p of separate pairs", None, float(np.median(found.separate))),
        Row("empirical null: largest p of a related pair", None, max(related.conformal)),
        Row(f"empirical null: power at {LEVEL}", None, related.share(related.conformal), floor_note(floor)),
        Row(
            f"empirical null: unrelated pairs at p ≤ {LEVEL}", None, unrelated.share(unrelated.conformal),
            "the null is of models of the same task; strangers of other tasks and untrained ones are not like them",
        ),
        Row(f"both say the same at {LEVEL}", None, float(np.mean(agree)), floor_note(floor)),
    ]  # fmt: skip


def floor_note(floor: float) -> str:
    """Return what a null of few models means for a level."""
    if floor <= LEVEL:
        return ""
    return f"with so few models no p is below {floor:.2g}, so at {LEVEL} the empirical null finds nothing"


def draw(bench: Bench, found: Found) -> None:
    """Draw the share of pairs at or below p, which for a uniform p is p."""
    drawing, (axes, other) = panels(2, size=(3.4, 3.0))
    levels = np.linspace(0, 1, 201)
    for panel, title, tests in ((axes, "unrelated pairs", found.unrelated), (other, "related pairs", found.related)):
        shares = {
            name: np.mean(np.asarray(values)[:, None] <= levels, axis=0)
            for name, values in (("permutations", tests.permuted), ("independent models", tests.conformal))
        }
        panel.plot([0, 1], [0, 1], color="0.8", linewidth=0.8)
        lines(panel, levels, shares, markers=False)
        panel.set(title=title, xlabel="p", ylabel="share of pairs at or below p")
    bench.draw("verification", drawing)


def holds(rows: Mapping[str, Row]) -> None:
    """The permutation test finds every related pair at its smallest p, and calls few strangers related."""
    claim(rows[f"permutation null: power at {LEVEL}"].number == 1, "the permutation test misses related pairs")
    false = rows[f"permutation null: unrelated pairs at p ≤ {LEVEL}"].number
    claim(false <= 3 * LEVEL, f"the permutation test calls {false:.0%} of the strangers related")
    uniform = rows["permutation null: uniformity, Kolmogorov-Smirnov p"].number
    claim(uniform > 0.001, f"p-values of independent pairs are not uniform (p = {uniform:.1e})")


EXPERIMENTS = (Experiment("app:verification", "two nulls", rows, holds),)
