"""`tab:gpt2-survival` and `fig:gpt2-benchmark`: what is left of the score of GPT-2 models after training and edits."""

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.gpt2 import Benchmark
from benchmarks.paper.parts.judges import OURS, ROBUST, Judged, Jury, lineage, robust, verdict
from benchmarks.paper.parts.plots import panels, strips
from benchmarks.paper.parts.scores import auroc, gap_z

METHODS = {OURS: lineage, ROBUST: robust, "verdict": verdict}
GROUPS = {
    "quantized": ("quantized 256", "quantized 64"),
    "LoRA merged": ("LoRA merged",),
    "fine-tuned": ("fine-tuned",),
    "pruned": ("pruned 30 %", "pruned 50 %", "pruned 70 %"),
    "distilled student": ("distilled student",),
    "independent": ("independent",),
}
"""The rows of the table."""
PAPER = {
    "quantized": (6, 0.999, 0.999),
    "LoRA merged": (3, 0.998, 0.996),
    "fine-tuned": (3, 0.980, 0.980),
    "pruned": (9, 0.937, 0.855),
    "distilled student": (3, 0.002, 0.001),
    "independent": (21, 0.003, 0.000),
}
"""Pairs, mean and least score."""
CHANCE = (
    "chance alone: the cosine of two unrelated blocks has standard deviation 1/d, and the assignment picks the larger "
    "ones; the paper's d is 384, here it is {width}"
)
NOTES = {
    "quantized": "64 levels between the extremes of every matrix",
    "LoRA merged": "how far an adapter moves the weights depends on rate and steps, which are fewer here",
    "fine-tuned": "how far weights move depends on rate and steps, which are fewer here",
    "pruned": "what the largest 30 % of a matrix hold depends on the tails of its distribution: of normal weights 0.78 "
    "would be left, heavier tails leave more, and those of these weights are heavier than the paper's",
}
ROBUST_NOTE = (
    "as `hf-lineage compare` reports it: recipe robust, 64 probes; it caps units at twice their median, which takes "
    "most of the live ones where, as in these roots, half are nearly dead"
)


def rows(bench: Bench) -> Sequence[Row]:
    """Return mean and least score of every group, by both recipes, and the verdicts."""
    benchmark = Benchmark.of(bench)
    judged = Jury(benchmark).judged(METHODS)
    chance = CHANCE.format(width=benchmark.plan.shape.width)
    found: list[Row] = []
    for group, kinds in GROUPS.items():
        values, changed = (judged.of(method, *kinds) for method in (OURS, ROBUST))
        count, mean, least = PAPER[group]
        note = NOTES.get(group, chance)
        found += [
            Row(f"{group}: pairs", count, len(values), ""),
            Row(f"{group}: mean", mean, float(np.mean(values)), note),
            Row(f"{group}: min", least, min(values), note),
            Row(f"{group}, robust: mean", None, float(np.mean(changed)), ROBUST_NOTE),
            Row(f"{group}, robust: min", None, min(changed), ROBUST_NOTE),
        ]
    return [*found, *summary(judged, chance)]


def summary(judged: Judged, chance: str) -> list[Row]:
    """Return how well the pairs are separated."""
    related, unrelated = judged.split(OURS)
    called, strangers = judged.split("verdict")
    return [
        Row("least related score", 0.855, min(related), NOTES["pruned"]),
        Row("largest unrelated score", 0.004, max(unrelated), chance),
        Row("AUROC", 1.0, auroc(related, unrelated)),
        Row("robust: AUROC", None, auroc(*judged.split(ROBUST)), ROBUST_NOTE),
        Row("descendants called related", None, f"{sum(called):.0f}/{len(called)}", "hf-lineage compare, by default"),
        Row("others called related", None, f"{sum(strangers):.0f}/{len(strangers)}", "the test is held at 0.01"),
    ]


def separated(rows: Mapping[str, Row]) -> None:
    """Every descendant scores above all others, and the test tells them apart."""
    least, most = rows["least related score"].number, rows["largest unrelated score"].number
    claim(least > most, f"a descendant scores {least:.3f}, an unrelated model {most:.3f}")
    claim(rows["AUROC"].number == 1 == rows["robust: AUROC"].number, "AUROC is below 1")


def figure(bench: Bench) -> Sequence[Row]:
    """Draw the scores of all pairs of all splits by kind, and how alike students and strangers behave."""
    benchmark = Benchmark.of(bench)
    judged = Jury(benchmark).judged({OURS: lineage}, benchmark.everything)
    students = [benchmark.likeness(benchmark.root(root), benchmark.student(root)) for root in benchmark.everything]
    others = [
        benchmark.likeness(pair.reference, pair.suspect)
        for pair in benchmark.pairs(benchmark.everything)
        if pair.kind == "independent"
    ]
    drawing, (left, right) = panels(2, size=(4.2, 3.0))
    scores = {group: judged.of(OURS, *kinds) for group, kinds in GROUPS.items()}
    strips(left, dict(list(scores.items())[:4]), dict(list(scores.items())[4:]))
    left.set(title="a", xlabel="lineage score with the root")
    strips(
        right,
        {},
        {"student": [found.agreement for found in students], "independent": [found.agreement for found in others]},
    )
    right.set(title="b", xlabel="top-1 agreement with the root")
    bench.draw("gpt2-benchmark", drawing)
    agreement, apart = (float(np.mean([found.agreement for found in some])) for some in (students, others))
    related, unrelated = judged.split(OURS)
    note = "another text, tokens of one byte, a short training"
    return [
        Row("pairs of all splits", 120, len(judged.kinds), "56 descendants, 8 students, 56 pairs of roots"),
        Row("least related score", 0.855, min(related), "of all splits"),
        Row("largest unrelated score", 0.004, max(unrelated), "of all splits"),
        Row("students, all splits: mean score", 0.002, float(np.mean(scores["distilled student"]))),
        Row("independent, all splits: mean score", 0.003, float(np.mean(scores["independent"]))),
        Row("students: top-1 agreement", 0.79, agreement, note),
        Row("students: agreement above that of independent roots", 0.014, agreement - apart, note),
        Row("students: KL divergence", None, float(np.mean([found.divergence for found in students])), "nats a token"),
        Row("independent: KL divergence", None, float(np.mean([found.divergence for found in others]))),
        Row("students: perplexity ratio", None, float(np.mean([found.perplexity for found in students]))),
        Row("Gap-Z of all splits", None, gap_z(related, unrelated)),
    ]


def imitation(rows: Mapping[str, Row]) -> None:
    """Students say mostly what their teachers say, and inherit nothing."""
    agreement = rows["students: top-1 agreement"].number
    claim(agreement > 0.5, f"students agree on {agreement:.0%} of the tokens")
    least, most = rows["least related score"].number, rows["largest unrelated score"].number
    claim(least > 5 * most, f"a descendant scores {least:.3f}, a student or stranger {most:.3f}")


EXPERIMENTS = (
    Experiment("tab:gpt2-survival", "scores after training and edits", rows, separated),
    Experiment("fig:gpt2-benchmark", "scores by kind, and what students imitate", figure, imitation),
)
