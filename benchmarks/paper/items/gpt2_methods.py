"""`tab:baselines`, `tab:laundering` and `tab:laundering-gapz`, GPT-2: rivals on 45 pairs."""

from collections.abc import Mapping, Sequence

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.gpt2 import Benchmark
from benchmarks.paper.parts.judges import BY_WEIGHTS, OURS, Judged, Jury
from benchmarks.paper.parts.scores import auroc, gap_z

RIVALS = (OURS, "Re-Basin+scale", "aligned Frobenius", "singular values", "weight cosine")
CLEAN = {
    OURS: (1.00, 31.0),
    "weight cosine": (1.00, 30.7),
    "aligned Frobenius": (1.00, 3.9),
    "singular values": (0.73, 0.4),
    "SVCCA": (0.99, 3.7),
    "CKA": (0.86, 1.9),
    "IPGuard": (0.91, 2.1),
}
"""AUROC and Gap-Z."""
AUROC = (1.0, 1.0, 1.0, 0.76, 1.0)
GAP_Z = (31.0, 29.5, 3.9, 0.4, 0.8)
"""Under P, in the order of RIVALS."""
WEIGHTS = (
    "the spread of the related scores decides: strong decay has left half the units of these roots near zero, where "
    "pruning takes little"
)
NOTES = {
    OURS: WEIGHTS,
    "Re-Basin+scale": WEIGHTS,
    "weight cosine": WEIGHTS,
    "aligned Frobenius": "how the paper normalises its distance is not given; ours is relative to the reference's norm",
    "singular values": "the paper's distance is not given; ours is relative, matrix by matrix, and how far apart the "
    "spectra of two roots lie depends on their training: after 300 steps pruning moved them farther (AUROC 0.85)",
    "SVCCA": "the paper's layers and text are not given; all streams on held-out text here",
    "CKA": "the paper's layers and text are not given; all streams on held-out text here",
    "IPGuard": "the paper's analogue is not given; ours takes the tenth of held-out positions nearest to a decision",
}
LAUNDERED = {
    "aligned Frobenius": "descendants then lie about as far away as strangers, and the sizes of weights are left; the "
    "paper's Gap-Z is the same 3.9 clean and laundered, and its text compares it with 72 of another benchmark",
    "singular values": "the values do not move under P; the paper has 0.73 clean and 0.76 laundered, with one Gap-Z",
    "weight cosine": "what is left after P is what units have in common; AUROC 1 with a Gap-Z of 0.8, as printed, "
    "takes very skewed scores",
}


def clean(bench: Bench) -> Sequence[Row]:
    """Return AUROC and Gap-Z of the seven methods."""
    jury = Jury(Benchmark.of(bench))
    methods = {**BY_WEIGHTS, **jury.readers}
    judged = jury.judged({name: methods[name] for name in CLEAN})
    found = []
    for method, (area, gap) in CLEAN.items():
        ours = auroc(*judged.split(method))
        found += [
            Row(f"GPT-2, {method}: AUROC", area, ours, NOTES[method] if abs(area - ours) > 0.005 else ""),
            Row(f"GPT-2, {method}: Gap-Z", gap, gap_z(*judged.split(method)), NOTES[method]),
        ]
    return [*found, Row("GPT-2, pairs", 45, len(judged.kinds), "")]


def ours_leads(rows: Mapping[str, Row]) -> None:
    """Ours separates all pairs, by a wider margin than any method that runs the models."""
    claim(rows[f"GPT-2, {OURS}: AUROC"].number == 1, "our AUROC is below 1")
    ours = rows[f"GPT-2, {OURS}: Gap-Z"].number
    for rival in ("SVCCA", "CKA", "IPGuard"):
        gap = rows[f"GPT-2, {rival}: Gap-Z"].number
        claim(gap < ours, f"the Gap-Z of {rival} is {gap:.1f}, ours {ours:.1f}")


def judged_twice(bench: Bench) -> tuple[Judged, Judged]:
    """Return the scores of the methods that read weights, clean and with descendants laundered by P."""
    jury = Jury(Benchmark.of(bench))
    methods = {name: BY_WEIGHTS[name] for name in RIVALS}
    return jury.judged(methods), jury.laundered(methods)


def laundered(bench: Bench) -> Sequence[Row]:
    """Return the AUROC of every method under P, and by how much our score moves."""
    before, after = judged_twice(bench)
    moved = max(abs(one - other) for one, other in zip(before.scores[OURS], after.scores[OURS], strict=True))
    note = "largest change of a score; every logit on held-out text moves by less than 1e-4"
    return [
        *(
            Row(f"GPT-2, P, {method}: AUROC", paper, auroc(*after.split(method)), LAUNDERED.get(method, ""))
            for method, paper in zip(RIVALS, AUROC, strict=True)
        ),
        Row("GPT-2, ours: change of the score", 0.0, moved, note),
    ]


def unmoved(rows: Mapping[str, Row]) -> None:
    """Laundering neither moves our score nor hides a descendant from it."""
    moved = rows["GPT-2, ours: change of the score"].number
    claim(moved < 1e-6, f"P moves our score by {moved:.1e}")
    claim(rows[f"GPT-2, P, {OURS}: AUROC"].number == 1, "under P our AUROC is below 1")


def margins(bench: Bench) -> Sequence[Row]:
    """Return the Gap-Z of every method, clean and under P, and what the cosine loses."""
    found = []
    for name, judged in zip(("none", "P"), judged_twice(bench), strict=True):
        for method, laundered_gap in zip(RIVALS, GAP_Z, strict=True):
            paper = laundered_gap if name == "P" else CLEAN[method][1] if method in CLEAN else None
            note = LAUNDERED.get(method, NOTES[method])
            found.append(Row(f"GPT-2, {name}, {method}: Gap-Z", paper, gap_z(*judged.split(method)), note))
    means = [
        sum(related) / len(related) for judged in judged_twice(bench) for related in judged.split("weight cosine")[:1]
    ]
    note = "of the mean cosine with descendants"
    return [*found, Row("GPT-2, P, weight cosine: share of the score lost", 0.97, 1 - means[1] / means[0], note)]


def steady(rows: Mapping[str, Row]) -> None:
    """Our margin stays, and that of the cosine collapses."""
    ours, hidden = (rows[f"GPT-2, {name}, {OURS}: Gap-Z"].number for name in ("none", "P"))
    claim(abs(ours - hidden) < 1e-3 * ours, f"our Gap-Z goes from {ours:.2f} to {hidden:.2f}")
    lost = rows["GPT-2, P, weight cosine: share of the score lost"].number
    claim(lost > 0.9, f"the cosine only loses {lost:.0%}")


EXPERIMENTS = (
    Experiment("tab:baselines", "GPT-2 columns", clean, ours_leads),
    Experiment("tab:laundering", "GPT-2, P", laundered, unmoved),
    Experiment("tab:laundering-gapz", "GPT-2, P", margins, steady),
)
