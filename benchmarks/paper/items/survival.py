"""`tab:survival` and `fig:hero` c: what is left of the score of 159 pairs of deep residual MLPs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain

import numpy as np

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.mlp import Judges, survival_families
from benchmarks.paper.parts.plots import panels, strips
from benchmarks.paper.parts.scores import auroc, gap_z

GROUPS = {
    "FT / Quant / Noise": ("fine-tuned", "quantized", "noise"),
    "FT (diff. target)": ("fine-tuned to another target",),
    "Pruning (10-85%)": ("pruned",),
    "Indep. / Distilled": ("independent", "independent, another task", "untrained", "distilled"),
}
"""The rows of the table."""
PAPER = {
    "FT / Quant / Noise": (0.99, 0.97),
    "FT (diff. target)": (0.94, 0.84),
    "Pruning (10-85%)": (0.81, 0.58),
    "Indep. / Distilled": (0.08, 0.01),
}
"""Mean and least score."""
CHANCE = (
    "at width 48 the assignment picks, for each of 24 layers, about the largest of 24 cosines of standard deviation "
    "1/48, which alone makes 0.035; the paper's networks have something more in common, and it does not say how they "
    "were trained"
)
NOTES = {
    "FT (diff. target)": "how fast was fine-tuned is not given; at three times our rate, as in training, less is left",
    "Pruning (10-85%)": "the five shares are not given; here 10, 30, 50, 70 and 85 %",
    "Indep. / Distilled": CHANCE,
}


@cache
def by_kind(bench: Bench) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return our scores of related and of unrelated pairs by their kind."""
    found: dict[bool, dict[str, list[float]]] = {True: defaultdict(list), False: defaultdict(list)}
    for family in survival_families(bench):
        judge = Judges(family).by_weights["ours"]
        for pair in family.pairs:
            found[pair.related][pair.kind].append(judge(pair.suspect))
    return found[True], found[False]


def rows(bench: Bench) -> Sequence[Row]:
    """Return mean and least score of every group, how many lie above the null, and the figure's data as a whole."""
    related, unrelated = by_kind(bench)
    scores = related | unrelated
    positive, negative = (list(chain(*some.values())) for some in (related, unrelated))
    found = []
    for group, kinds in GROUPS.items():
        values = np.concatenate([scores[kind] for kind in kinds])
        note = NOTES.get(group, "")
        found += [
            Row.beside(f"{group}: {name}", paper, ours, note)
            for name, paper, ours in zip(
                ("mean", "min"), PAPER[group], (float(values.mean()), float(values.min())), strict=True
            )
        ]
        if kinds[0] in related:
            above = f"{int(np.sum(values > max(negative)))}/{len(values)}"
            found.append(Row(f"{group}: above the null", f"{len(values)}/{len(values)}", above))
    return [
        *found,
        Row("least related score", 0.58, min(positive), "85 % pruned; more is left after more weight decay"),
        Row("largest unrelated score", 0.20, max(negative), CHANCE),
        Row("AUROC", 1.0, auroc(positive, negative)),
        Row("Gap-Z", None, gap_z(positive, negative), "the paper gives none for these pairs"),
        Row("related pairs", 75, len(positive)),
        Row("unrelated pairs", 84, len(negative)),
    ]


def holds(rows: Mapping[str, Row]) -> None:
    """Every related pair lies above every unrelated one."""
    least, most = rows["least related score"].number, rows["largest unrelated score"].number
    claim(least > most, f"a related pair scores {least:.3f}, an unrelated one {most:.3f}")
    claim(rows["AUROC"].number == 1, "AUROC is below 1")


def figure(bench: Bench) -> Sequence[Row]:
    """Draw the scores of all pairs by kind."""
    related, unrelated = by_kind(bench)
    drawing, (axes,) = panels(size=(6.4, 3.2))
    strips(axes, related, unrelated)
    threshold = max(max(scores) for scores in unrelated.values())
    axes.axvline(threshold, color="0.4", linestyle="--", linewidth=0.9)
    axes.text(threshold, 1.02, "largest unrelated score", transform=axes.get_xaxis_transform(), fontsize=8)
    axes.set_xlabel("lineage score with the reference")
    bench.draw("hero-c", drawing)
    return [
        Row(f"c, {kind}: mean score", None, float(np.mean(scores)), f"{len(scores)} pairs, in figures/hero-c.svg")
        for kind, scores in (related | unrelated).items()
    ]


def drawn(rows: Mapping[str, Row]) -> None:
    """Fine-tuning leaves nearly everything, independence next to nothing."""
    tuned, strangers = (rows[f"c, {kind}: mean score"].number for kind in ("fine-tuned", "independent"))
    claim(tuned > 3 * strangers, f"fine-tuned models score {tuned:.3f}, independent ones {strangers:.3f}")


EXPERIMENTS = (
    Experiment("tab:survival", "scores after post-training edits", rows, holds),
    Experiment("fig:hero", "c: scores by kind of pair", figure, drawn),
)
