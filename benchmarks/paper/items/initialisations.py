"""`tab:init-ablation`: blocks of deep residual MLPs find their partners after training, however they began."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.coupling import Course, course, held_out, pairing
from benchmarks.paper.parts.models import Networks
from benchmarks.paper.parts.training import Schedule

PAPER = {
    "orthogonal": (0.0, 1.0, 0.947),
    "kaiming-normal": (0.021, 0.97, 0.981),
    "kaiming-uniform": (0.021, 0.986, 0.98),
    "xavier-normal": (0.021, 1.0, 0.990),
    "xavier-uniform": (0.021, 1.0, 0.99),
    "uniform": (0.021, 0.938, None),
    "gaussian-0.02": (0.021, 0.13, 0.671),
}
"""Pair accuracy before and after training, and the AUROC of right against wrong pairs after it."""
LEARNED = 0.9
"""Of the best scheme's share of right answers on pictures not seen: from here a network counts as converged."""
CHANCE = (
    "the paper's 2.1 % and 93.8 % are 1/48 and 45/48, two networks of 24 blocks; 98.6 % is 71/72, three of them: its "
    "rows do not all have the three seeds it states; a random permutation has one fixed point on average, 1/24 = 4.2 %"
)
KAIMING = (
    "24 blocks of this scale multiply the stream by thousands, so that these networks begin at a loss of 1e5 and have "
    "not converged; the paper's have, and it does not say by what norm or clipping"
)
SMALL = (
    "the paper's blocks collapse; ours do not, by AdamW or by SGD (last rows): the smaller the initial weights, the "
    "sooner a product is what training made of it; the paper gives neither optimizer nor decay"
)
NOTES = {"kaiming-normal": KAIMING, "kaiming-uniform": KAIMING, "gaussian-0.02": SMALL}


def rows(bench: Bench) -> Sequence[Row]:
    """Return pair accuracy before and after training, AUROC, and how well the networks learned, by scheme."""
    seeds = bench.sized((0,), (0, 1))
    schemes = bench.sized(("orthogonal", "xavier-normal", "gaussian-0.02"), tuple(PAPER))
    plan = course(bench, schemes=schemes, seeds=seeds)
    networks = zip(of_scheme(plan, plan.start()), of_scheme(plan, plan.trained(bench.cache)), strict=True)
    found: list[Row] = []
    for scheme, (before, after) in zip(schemes, networks, strict=True):
        untrained, trained, auc = PAPER[scheme]
        note = NOTES.get(scheme, "")
        found += [
            Row(f"{scheme}: untrained", untrained, mean(before, "accuracy"), CHANCE),
            Row(f"{scheme}: trained", trained, mean(after, "accuracy"), note),
            Row(f"{scheme}: AUROC", auc, mean(after, "auc"), note if auc else "the paper gives none"),
            told_right(scheme, after),
        ]
    return [*found, *(by_descent(bench) if bench.sized(False, True) else ())]


def by_descent(bench: Bench) -> list[Row]:
    """Return what becomes of the smallest weights without the optimizer's scaling of steps."""
    schedule = Schedule(25, rate=0.1, batch=16, decay=5e-4, optimizer="SGD")
    plan = replace(course(bench, schemes=("gaussian-0.02",)), schedule=schedule)
    after = plan.trained(bench.cache)
    name, note = "gaussian-0.02, by SGD", "rate 0.1, decay 5e-4, 25 epochs"
    return [
        Row(f"{name}: trained", 0.13, mean(after, "accuracy"), note),
        Row(f"{name}: AUROC", 0.671, mean(after, "auc"), note),
        told_right(name, after),
    ]


def told_right(name: str, networks: Networks) -> Row:
    """Return how well networks have learned."""
    return Row(f"{name}: told right", None, float(held_out(networks)[1].mean()), "digits held out")


def of_scheme(plan: Course, networks: Networks) -> Iterator[Networks]:
    """Yield the networks of each scheme of a course."""
    count = len(plan.seeds)
    return (networks[start : start + count] for start in range(0, len(networks), count))


def mean(networks: Networks, figure: str) -> float:
    """Return the mean of `accuracy` or `auc` over networks."""
    return float(np.mean([getattr(pairing(network.blocks), figure) for network in networks]))


def holds(rows: Mapping[str, Row]) -> None:
    """Before training pairs are at chance, orthogonal matrices too; after it all that converged find most of them."""
    best = max(row.number for name, row in rows.items() if name.endswith(": told right"))
    for scheme in PAPER:
        if f"{scheme}: trained" not in rows:
            continue
        before, after, learned = (rows[f"{scheme}: {what}"].number for what in ("untrained", "trained", "told right"))
        claim(before <= 0.25, f"{scheme}: {before:.0%} of the pairs are found before training")
        claim(after > before, f"{scheme}: training leaves the pairs at {after:.0%}")
        converged = learned >= LEARNED * best
        claim(after >= 0.93 or not converged, f"{scheme}: only {after:.0%} of the pairs are found after training")


EXPERIMENTS = (Experiment("tab:init-ablation", "seven initialisations", rows, holds),)
