"""`ours:adapters`: which base a LoRA adapter was trained on, by the library's `compare`, on adapters trained by peft.

False pairs have bases of the same shape, so that nothing but the trace can tell them apart.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.stats import kstest

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.adapters import (
    ALPHA,
    Configuration,
    Family,
    Pair,
    Rate,
    Workshop,
    found_alone,
    least,
    rate,
    tested,
)
from hf_lineage.lora.gradient_alignment import VERIFIED, WHOLE

CONFIGURATIONS = (
    Configuration("query and value, rank 8", 8, everything=False),
    Configuration("all linear, rank 8", 8),
    Configuration("all linear, DoRA, rank 4", 4, settings={"use_dora": True}),
    Configuration("all linear, rsLoRA, rank 1", 1, alpha=4, settings={"use_rslora": True}),
)
STEPS, CURVE, RANKS = (5, 40, 200), (1, 4, 16, 64, 256), (1, 4, 16)
MANY, SMALL = Family("Llama", 64), Family("Llama", 32, layers=2, steps=60)
OTHERS = (Family("Llama", 32), Family("Llama", 128), Family("GPT-2", 64), Family("BERT", 64))
MOVED, LEVELS = 0.01, (0.01, 0.05)  # by how much of its loss an adapter has moved before it has to be found; alphas
SURE = 0.99  # the predicted power from which on no trace means UNRELATED
FOUND = "true bases found once the loss has moved by 1 % and the weights by at most a tenth"
ANYWAY = "true bases found once the loss has moved by 1 %, however far the weights"
PREDICTED = f"true bases found where the predicted power is at least {SURE}"
SOUND = "true bases verified once the loss has moved by 1 % and the weights by at most a tenth"
SOUND_ANYWAY = "true bases verified once the loss has moved by 1 %, however far the weights"
WRONG = "false pairs verified, their number"
MOST_WRONG = 2
"""So many of the false pairs may be verified: about one in a thousand has so small a p, whatever its effect is."""
LOSSES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)  # bounds of the shares of the loss by which adapters have lowered it
SPREAD = "false pairs that share no model: p of the Kolmogorov-Smirnov test"
PROJECTIONS = ("value", "output", "up", "down")  # those whose matrices are seen one by one


def rows(bench: Bench) -> Sequence[Row]:
    """Return how many true bases are found, how many false ones are rejected, and what each projection shows."""
    workshop = Workshop.of(bench)
    others, each = bench.sized((OTHERS[2:3], 2), (OTHERS, 3))
    families = {MANY: bench.sized(2, 10), **dict.fromkeys(others, each)}
    configurations, steps = bench.sized((CONFIGURATIONS[1:2], (40,)), (CONFIGURATIONS, STEPS))
    pairs = [
        tested(workshop, family, (configuration, count), own, base, bench.sized(199, 999))
        for family, bases in families.items()
        for configuration in configurations
        for count in steps
        for own in range(bases)
        for base in range(bases)
    ]
    false = [pair for pair in pairs if not pair.true]
    return [
        *detection(workshop, pairs),
        *(row for alpha in LEVELS for row in rejected(alpha, rate(false, alpha))),
        wrong(false),
        spread(bench, workshop),
        *by_projection(pairs),
        *curves(bench, workshop, [pair for pair in pairs if pair.true]),
    ]


def detection(workshop: Workshop, pairs: Sequence[Pair]) -> Iterator[Row]:
    """Yield the share of true bases with p <= 0.001, by family, configuration and steps, and where they must be."""
    true = [pair for pair in pairs if pair.true]
    found = {id(pair): pair.trace.p_value <= VERIFIED for pair in true}
    moved = {id(pair): loss(workshop, pair) for pair in true}
    for family, configuration, steps in dict.fromkeys((one.family, one.configuration.name, one.steps) for one in true):
        some = [
            one for one in true if (one.family, one.configuration.name, one.steps) == (family, configuration, steps)
        ]
        lowered = [moved[id(one)] for one in some]
        zs = [max(map(one.trace.z_of, one.trace.by_role)) for one in some]
        by = f"loss lowered by {min(lowered):.1%} to {max(lowered):.1%}"
        note = f"{by}; largest z of a projection {min(zs):.1f} to {max(zs):.1f}"
        note += f"; {sum(one.verified for one in some)} verified"
        yield share(f"{family.name}, {configuration}, {steps} steps: found", [found[id(one)] for one in some], note)
    effective = [one for one in true if moved[id(one)] >= MOVED]
    near = [one for one in effective if np.mean(one.trace.sizes) <= WHOLE]
    yield share(FOUND, [found[id(one)] for one in near])
    yield share(SOUND, [one.verified for one in near])
    yield share(SOUND_ANYWAY, [one.verified for one in effective])
    missed = [one for one in effective if not found[id(one)]]
    least_size = min((float(np.mean(one.trace.sizes)) for one in missed), default=0.0)
    note = f"the others add at least {least_size:.2f} of the size of the weights" if missed else ""
    yield share(ANYWAY, [found[id(one)] for one in effective], note)
    sure = [one for one in true if one.trace.power(ALPHA) >= SURE]
    yield share(PREDICTED, [one.trace.p_value <= ALPHA for one in sure], "at p <= 0.01")


def loss(workshop: Workshop, pair: Pair) -> float:
    """Return the share of the loss by which the adapter of a pair has lowered it."""
    adapter = workshop.adapter(pair.family, pair.own, pair.configuration, pair.steps)
    return workshop.moved(pair.family, pair.own, adapter)


def share(name: str, found: Sequence[bool], note: str = "") -> Row:
    """Return the row of a share, with the two numbers in its note."""
    counted = f"{sum(found)} of {len(found)}"
    return Row(name, None, float(np.mean(found)), f"{counted}; {note}" if note else counted)


def rejected(alpha: float, measured: Rate) -> Iterator[Row]:
    """Yield how many false pairs are rejected at a level, and the lower end of the interval."""
    name = f"false pairs rejected at {alpha}"
    interval = f"95 % interval {measured.low:.4f} to {measured.high:.4f}, whole bases drawn again"
    yield Row(name, None, measured.share, f"{measured.pairs} pairs; {interval}")
    yield Row(f"{name}: lower end", None, measured.low)


def wrong(false: Sequence[Pair]) -> Row:
    """Return how many false pairs are verified, and how many more are RELATED."""
    verified, weak = (sum(pair.verdict == word for pair in false) for word in ("VERIFIED", "RELATED"))
    return Row(WRONG, None, verified, f"of {len(false)} pairs; {weak} more are RELATED weak")


def spread(bench: Bench, workshop: Workshop) -> Row:
    """Return whether p is uniform over pairs of an adapter and a base in which no model, and no base, occurs twice."""
    count = bench.sized(3, 60)
    some = [
        tested(workshop, SMALL, (CONFIGURATIONS[1], STEPS[1]), 2 * number, 2 * number + 1, 999)
        for number in range(count)
    ]
    p_values = [pair.trace.p_value for pair in some]
    found = kstest(p_values, "uniform")
    return Row(
        SPREAD, None, float(found.pvalue), f"{count} pairs of {2 * count} bases; largest distance {found.statistic:.3f}"
    )


def by_projection(pairs: Sequence[Pair]) -> Iterator[Row]:
    """Yield what each projection shows by itself: z of true bases, and how often true and false ones are found."""
    for role in dict.fromkeys(role for pair in pairs for role in pair.trace.by_role):
        those = [pair for pair in pairs if role in pair.trace.by_role]
        true, false = ([pair.trace for pair in those if pair.true is kind] for kind in (True, False))
        zs = [trace.z_of(role) for trace in true]
        yield Row(f"{role}: median z of true bases", None, float(np.median(zs)), f"{min(zs):.1f} to {max(zs):.1f}")
        yield share(f"{role}: true bases found at {ALPHA}", [trace.p_of(role) <= ALPHA for trace in true])
        yield share(f"{role}: false ones found at {ALPHA}", [trace.p_of(role) <= ALPHA for trace in false])
        for family in dict.fromkeys(pair.family for pair in those):
            name = f"{role}: least z over the root of the directions, {family.name}"
            yield Row(name, None, least((pair for pair in those if pair.true and pair.family == family), role))


def curves(bench: Bench, workshop: Workshop, true: Sequence[Pair]) -> Iterator[Row]:
    """Yield the share of single matrices in which the trace shows, by projection, rank and steps.

    Beside it stands the share of whole adapters that are verified, by how far they have lowered the loss.
    """
    steps, ranks = bench.sized((4,), CURVE), bench.sized((4,), RANKS)
    some = {
        (rank, count): [
            tested(workshop, MANY, (Configuration(f"rank {rank}", rank), count), own, own, 999)
            for own in range(bench.sized(1, 5))
        ]
        for rank in ranks
        for count in steps
    }
    for role in PROJECTIONS:
        for (rank, count), pairs in some.items():
            name = f"{role} alone in one layer, rank {rank}, {count} steps: found at {ALPHA}"
            yield share(name, found_alone(pairs, role))
    yield from by_loss([(loss(workshop, pair), pair) for pair in true])


def by_loss(true: Sequence[tuple[float, Pair]]) -> Iterator[Row]:
    """Yield the share of true bases that are verified, by how far the loss was lowered."""
    bins = {
        (low, high): [pair for moved, pair in true if low <= moved < high] for low, high in itertools.pairwise(LOSSES)
    }
    bins = {bounds: pairs for bounds, pairs in bins.items() if pairs}
    shares = {
        "p at most 0.001": [[pair.trace.p_value <= VERIFIED for pair in pairs] for pairs in bins.values()],
        "verified": [[pair.verified for pair in pairs] for pairs in bins.values()],
    }
    for what, each in shares.items():
        for (low, high), found in zip(bins, each, strict=True):
            yield share(f"loss lowered by {low:.0%} to {high:.0%}: {what}", found)


def holds(rows: Mapping[str, Row]) -> None:
    """Every true base is found where the loss has moved, false ones no more often than alpha says."""
    claim(rows[FOUND].number == 1, f"of true bases only {rows[FOUND].note} are found")
    claim(rows[PREDICTED].number >= SURE, f"a sure test finds only {rows[PREDICTED].note}")
    for alpha in LEVELS:
        low = rows[f"false pairs rejected at {alpha}: lower end"].number
        claim(low <= alpha, f"false pairs are rejected at {alpha} in at least {low:.3f} of the cases")
    claim(rows[WRONG].number <= MOST_WRONG, f"{rows[WRONG].number:.0f} false pairs are verified")
    claim(rows[SPREAD].number >= ALPHA, "p of false pairs is not uniform")


EXPERIMENTS = (Experiment("ours:adapters", "the base of an adapter", rows, holds),)
