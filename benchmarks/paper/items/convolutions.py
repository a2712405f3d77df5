"""`app:cifar-resnet`: lineage of convolutional networks, by the public interface of hf_lineage on saved checkpoints."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from benchmarks.paper.experiment import Bench, Experiment, Row, claim
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.models import Change, noisy, pruned, quantized
from benchmarks.paper.parts.plots import panels, strips
from benchmarks.paper.parts.scores import EXACT, auroc, gap_z
from benchmarks.paper.parts.vision import Vision, basic
from hf_lineage import Options, compare
from hf_lineage.evidence.verdict import Code, Verdict

REFERENCES, INDEPENDENT = (0, 1), (2, 3, 4)  # seeds
CALLED = ("related pairs that hf-lineage compare calls related", "unrelated pairs that it calls UNRELATED")
NOISES, PRUNINGS, LEVELS = (0.01, 0.02, 0.05, 0.1), (0.2, 0.4, 0.6, 0.8), (16, 64, 256)
SHARED = "64 probes; this recipe also removes what streams after a ReLU have in common, the mean of all entries"
VERSION = 1
INSTEAD = "digits and a ResNet of 5 residual branches stand in for CIFAR-10 and ResNet-18"
WIDTHS = (
    "branches of width 32 and 64, where a cosine of unrelated matrices has a standard deviation of 1/32 and 1/64 and "
    "the assignment picks the larger ones; ResNet-18 has 64 to 512, and 0.004 is what its widest branches make"
)


def edits(reference: int) -> dict[str, list[Change]]:
    """Return the 11 edits of a reference's weights by kind."""
    random = torch.Generator().manual_seed(reference)
    return {
        "noise": [partial(noisy, relative=relative, random=random) for relative in NOISES],
        "pruned": [partial(pruned, share=share) for share in PRUNINGS],
        "quantized": [partial(quantized, levels=levels) for levels in LEVELS],
    }


def edited(folder: Path, change: Change, to: Path) -> None:
    """Write a checkpoint with every weight matrix and kernel changed by itself; norms and biases stay."""
    weights = load_file(folder / "model.safetensors")
    found = {name: change(tensor) if tensor.ndim > 1 else tensor for name, tensor in weights.items()}
    save_file(found, to / "model.safetensors", metadata={"format": "pt"})
    shutil.copy(folder / "config.json", to)


@dataclass(frozen=True)
class Judged:
    """A pair by the paper's recipe and by the default one."""

    score: float
    verdict: Verdict

    @property
    def robust(self) -> float:
        return self.verdict.evidence["mlp"].comparison.score


def judged(reference: Path, suspect: Path) -> Judged:
    scores = compare(str(reference), str(suspect), Options(recipe=EXACT, seed=0)).rows[0].verdict.evidence
    verdict = compare(str(reference), str(suspect), Options(seed=0)).rows[0].verdict
    return Judged(scores["mlp"].comparison.score, verdict)


Pairs = Mapping[str, Sequence[Judged]]  # by kind


def pairs(cache: Cache, plans: Mapping[int, Vision]) -> tuple[Pairs, Pairs]:
    """Return the related and the unrelated pairs."""
    folders = {seed: plan.folder(cache) for seed, plan in plans.items()}
    related: dict[str, list[Judged]] = {}
    for reference in REFERENCES:
        for kind, changes in edits(reference).items():
            for number, change in enumerate(changes):
                folder = cache.kept_folder(
                    "convolutions",
                    [VERSION, plans[reference], kind, number],
                    partial(edited, folders[reference], change),
                )
                related.setdefault(kind, []).append(judged(folders[reference], folder))
    unrelated = [judged(folders[one], folders[other]) for one in REFERENCES for other in INDEPENDENT]
    return related, {"independent": unrelated}


def rows(bench: Bench) -> Sequence[Row]:
    """Return AUROC and the scores at the edge, the verdicts of hf-lineage, and draw all scores."""
    plans = {seed: basic(seed, bench.sized(2, 12)) for seed in (*REFERENCES, *INDEPENDENT)}
    related, unrelated = pairs(bench.cache, plans)
    positive, negative = (list(chain(*kinds.values())) for kinds in (related, unrelated))
    ours, theirs = ([pair.score for pair in some] for some in (positive, negative))
    right = sum(plan.right(plan.folder(bench.cache)) for plan in plans.values()) / len(plans)
    draw(bench, related, unrelated)
    least = [Row(f"{kind}: least score", None, min(pair.score for pair in found)) for kind, found in related.items()]
    return [
        Row("AUROC", 1.0, auroc(ours, theirs)),
        Row("related above the null", "22/22", f"{sum(score > max(theirs) for score in ours)}/{len(ours)}"),
        Row("least related score", 0.695, min(ours), f"80 % pruned; {INSTEAD}"),
        Row("largest related score", 1.0, max(ours)),
        Row("largest unrelated score", 0.004, max(theirs), WIDTHS),
        Row("Gap-Z", None, gap_z(ours, theirs)),
        Row("least related score, recipe robust", None, min(pair.robust for pair in positive), "64 probes"),
        Row("largest unrelated score, recipe robust", None, max(pair.robust for pair in negative), SHARED),
        *least,
        Row(CALLED[0], None, share(pair.verdict.is_related for pair in positive), "its defaults"),
        Row(CALLED[1], None, share(pair.verdict.code is Code.UNRELATED for pair in negative), "its defaults"),
        Row("told right", None, right, "mean of the five networks, digits held out"),
    ]


def share(right: Iterable[bool]) -> str:
    """Return how many answers are right, of how many."""
    answers = list(right)
    return f"{sum(answers)}/{len(answers)}"


def draw(bench: Bench, related: Pairs, unrelated: Pairs) -> None:
    """Draw the scores of all pairs by kind."""
    figure, (axes,) = panels(size=(5.2, 2.2))
    strips(
        axes, *({kind: [pair.score for pair in found] for kind, found in some.items()} for some in (related, unrelated))
    )
    axes.set(xlabel="lineage score with the reference")
    bench.draw("cifar-resnet", figure)


def holds(rows: Mapping[str, Row]) -> None:
    """Every edited network scores above every independent one, and is called related."""
    least, most = rows["least related score"].number, rows["largest unrelated score"].number
    claim(rows["AUROC"].number == 1, f"a related pair scores {least:.3f}, an unrelated one {most:.3f}")
    for name in CALLED:
        right, all_of_them = str(rows[name].ours).split("/")
        claim(right == all_of_them, f"{name}: {right} of {all_of_them}")


EXPERIMENTS = (Experiment("app:cifar-resnet", "convolutional networks", rows, holds),)
