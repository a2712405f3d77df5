"""`ours:robust`: the steps of the recipe `robust`, one by one and together, against the paper's, clean and disguised.

Everything goes through the library's `compare`, in exact mode, on checkpoints as transformers saves them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

from benchmarks.paper.experiment import Bench, Experiment, claim
from benchmarks.paper.items.convolutions import edited, edits
from benchmarks.paper.parts.disguises import Edit, disguised
from benchmarks.paper.parts.folders import folder
from benchmarks.paper.parts.lineups import Family, Pair, language_models
from benchmarks.paper.parts.plots import panels
from benchmarks.paper.parts.pools import LLAMA
from benchmarks.paper.parts.public import HUB
from benchmarks.paper.parts.rated import SHARED
from benchmarks.paper.parts.results import Row
from benchmarks.paper.parts.steps import STEPS
from benchmarks.paper.parts.vision import basic
from hf_lineage import Options, Recipe, compare

CLEAN = Edit("clean", (), tuple(STEPS))
KEPT = {"gains": 0.99, "means": 0.99, "cap": 0.9}
"""What a step leaves of the clean score under the edit that it undoes: the cap lets the median of a unit stay."""
PRICE = 0.7
"""What every step leaves at least of a clean score; capping, so that units count alike, costs a pruned GPT-2 most."""
FALSE = 0.03
"""The largest share of verdicts on strangers that may be related; α is 0.01, and edits of one stranger go together."""
SHORTER = "Llama, two blocks dropped, robust"
NARROW = 0.05
"""What chance makes of strangers' scores in the ResNets, whose streams have 32 and 64 coordinates."""


def resnets(bench: Bench) -> Family:
    """Return ResNets: their streams go through a ReLU, which shows without any edit."""
    plans = [basic(seed, bench.sized(2, 12, 12)) for seed in range(bench.sized(2, 5, 5))]
    folders = [plan.folder(bench.cache) for plan in plans]
    changes = [change for some in edits(0).values() for change in some][: bench.sized(1, None, None)]
    made = [
        bench.cache.kept_folder("convolutions", ["ours", plans[0], number], partial(edited, folders[0], change))
        for number, change in enumerate(changes)
    ]
    return Family("ResNet", [(folders[0], folder) for folder in made], list(combinations(folders, 2)))


@dataclass(frozen=True)
class Seen:
    """Suspects of one kind through one recipe."""

    scores: Sequence[float]
    p_values: Sequence[float]
    related: int
    """How many of them the library calls related."""

    @property
    def said(self) -> str:
        """How many are related, of how many."""
        return f"{self.related}/{len(self.scores)} related"


def seen(pairs: Sequence[Pair], recipe: Recipe, permutations: int) -> Seen:
    """Return what the library says of some pairs."""
    options = Options(recipe=recipe, permutations=permutations, seed=0)
    verdicts = [compare(str(a), str(b), options).rows[0].verdict for a, b in pairs]
    evidence = [verdict.evidence["mlp"] for verdict in verdicts]
    return Seen(
        [found.comparison.score for found in evidence],
        [found.p_value for found in evidence],
        sum(verdict.is_related for verdict in verdicts),
    )


Found = dict[tuple[str, str, str], tuple[Seen, Seen]]
"""By family, edit and recipe: descendants and strangers."""


def measured(bench: Bench, family: Family) -> Found:
    """Return everything that is seen of a family."""
    found: Found = {}
    permutations = bench.sized(99, 999, 999)
    for edit in (CLEAN, *family.edits):
        both = [[(a, laid(bench, family, b, edit)) for a, b in some] for some in (family.descendants, family.strangers)]
        for name, recipe in family.looked_at(edit).items():
            descendants, strangers = (seen(pairs, recipe, permutations) for pairs in both)
            found[family.name, edit.name, name] = descendants, strangers
    return found


def laid(bench: Bench, family: Family, suspect: Path, edit: Edit) -> Path:
    """Return a suspect after an edit."""
    if not edit.changes or family.tokens is None:
        return suspect
    return disguised(bench.cache, suspect, edit, family.tokens)


def rows(bench: Bench) -> Sequence[Row]:
    """Return scores and p-values by family, edit and recipe, the verdicts, and draw the scores."""
    found: Found = {}
    for family in (*language_models(bench), resnets(bench)):
        found |= measured(bench, family)
    draw(bench, found)
    return [*(row for key, both in found.items() for row in figures(key, both)), *verdicts(found), *dropped(bench)]


def figures(key: tuple[str, str, str], both: tuple[Seen, Seen]) -> list[Row]:
    """Return the scores of one family, edit and recipe that lie nearest to the other kind's."""
    where, (descendants, strangers) = ", ".join(key), both
    return [
        Row(
            f"{where}: descendants, least score", None, min(descendants.scores),
            f"p at most {max(descendants.p_values):.3g}; {descendants.said}",
        ),
        Row(
            f"{where}: strangers, largest score", None, max(strangers.scores),
            f"p at least {min(strangers.p_values):.3g}; {strangers.said}",
        ),
    ]  # fmt: skip


def verdicts(found: Found) -> list[Row]:
    """Return by recipe how many are related, over all edits that `robust` has a step or no need of one for."""
    undone = {key: both for key, both in found.items() if not key[1].startswith("stream")}
    beyond = {key: both for key, both in found.items() if key[1].startswith("stream")}
    note = "no step undoes it; README.md says so"
    return [
        Row(f"{recipe}, {what}: {kind} called related", None, count(some, recipe, number), remark)
        for recipe in ("paper", "robust")
        for what, some, remark in (("all edits but of the stream", undone, ""), ("stream turned", beyond, note))
        for number, kind in enumerate(("descendants", "strangers"))
    ]


def count(found: Found, recipe: str, kind: int) -> str:
    """Return how many of all suspects of a kind are called related through a recipe, of how many."""
    some = [both[kind] for key, both in found.items() if key[2] == recipe]
    return f"{sum(each.related for each in some)}/{sum(len(each.scores) for each in some)}"


def dropped(bench: Bench) -> list[Row]:
    """Return what is said of a fine-tuned Llama without two of its blocks, for which no step is needed."""
    shorter = folder(bench.cache, "llama-finetune-a, two layers less")
    verdict = compare(str(HUB / LLAMA), str(shorter), Options(seed=0)).rows[0].verdict
    note = "the blocks that are left are paired; the paper compares models of one depth"
    return [
        Row(f"{SHORTER}: verdict", None, verdict.label, note),
        Row(f"{SHORTER}: score", None, verdict.evidence["mlp"].comparison.score, note),
    ]


def draw(bench: Bench, found: Found) -> None:
    """Draw by family and edit the least descendant by the paper's recipe and by `robust`, and its largest stranger."""
    names = dict.fromkeys(family for family, edit, _ in found if edit != CLEAN.name)
    drawing, axes = panels(len(names), size=(4.2, 2.8))
    for place, family in zip(axes, names, strict=True):
        kinds = list(dict.fromkeys(edit for name, edit, _ in found if name == family))
        for number, edit in enumerate(kinds):
            (paper, _), (robust, strangers) = (found[family, edit, recipe] for recipe in ("paper", "robust"))
            marks = {
                "descendants, paper": (min(paper.scores), "s", "white"),
                "descendants, robust": (min(robust.scores), "o", "0.15"),
                "strangers, robust": (max(strangers.scores), "x", "0.45"),
            }
            for name, (score, marker, face) in marks.items():
                edge = face if marker == "x" else "0.15"
                kept = None if number else name
                place.plot(score, number, marker, mfc=face, mec=edge, linestyle="", markersize=6, label=kept)
            place.plot([min(paper.scores), min(robust.scores)], [number, number], color="0.75", zorder=0)
        place.set_yticks(range(len(kinds)), kinds)
        place.set(
            title=family,
            xlim=(-0.03, 1.03),
            ylim=(len(kinds) - 0.5, -0.5),
            xlabel="score: least descendant, largest stranger",
        )
    drawing.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    bench.draw("ours-robust", drawing)


def column(rows: Mapping[str, Row], figure: str) -> dict[tuple[str, str], dict[str, float]]:
    """Return one figure of every family and edit, by recipe."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for name, row in rows.items():
        where, _, what = name.partition(": ")
        if what == figure:
            family, edit, recipe = where.split(", ")
            found.setdefault((family, edit), {})[recipe] = row.number
    return found


def holds(rows: Mapping[str, Row]) -> None:
    """Every step gives back what its edit takes, costs a clean descendant little, and makes no stranger related."""
    scores = column(rows, "descendants, least score")
    for (family, edit), by_recipe in scores.items():
        clean, paper, robust = scores[family, "clean"], by_recipe["paper"], by_recipe["robust"]
        steps = [step for step in STEPS if f"robust - {step}" in by_recipe]
        if edit == "clean":
            least = min(by_recipe.values())
            claim(least >= PRICE * paper, f"{family}: a step takes a clean descendant from {paper:.3f} to {least:.3f}")
        elif steps:
            what, kept = f"{family}, {edit}", min(KEPT[step] for step in steps)
            claim(paper <= 0.9 * clean["paper"], f"{what}: the paper's recipe still has {paper:.3f}")
            claim(robust >= kept * clean["robust"], f"{what}: {clean['robust']:.3f} falls to {robust:.3f}")
            for step in steps:
                lacking = by_recipe[f"robust - {step}"]
                claim(robust > lacking, f"{what}: {robust:.3f} with the step {step}, {lacking:.3f} without")
    strangers_stay(rows)
    verdict = str(rows[f"{SHORTER}: verdict"].ours)
    claim(verdict.startswith(SHARED), f"a descendant without two of its blocks is {verdict}")


def strangers_stay(rows: Mapping[str, Row]) -> None:
    """Removing the mean lowers the scores that ReLU streams share; hardly a stranger is related under any edit."""
    resnets = column(rows, "strangers, largest score")["ResNet", "clean"]
    ours, without = resnets["robust"], resnets["robust - ones"]
    claim(ours <= max(0.8 * without, NARROW), f"strangers reach {ours:.3f} with the step ones, {without:.3f} without")
    for what in ("all edits but of the stream", "stream turned"):
        called, of = map(int, str(rows[f"robust, {what}: strangers called related"].ours).split("/"))
        claim(called <= FALSE * of, f"robust, {what}: {called} of {of} strangers are called related")
    called, of = map(int, str(rows["robust, all edits but of the stream: descendants called related"].ours).split("/"))
    claim(called == of, f"robust: {of - called} of {of} descendants are not called related")


EXPERIMENTS = (Experiment("ours:robust", "the steps of robust", rows, holds),)
