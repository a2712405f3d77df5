"""`ours:sketch`: the score from k random probes against the exact one: its error, what it claims to be, what it saves.

Probes are drawn once and for all from the recipe's `sketch_version`: another version draws others.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from benchmarks.clock import interleaved, ratio
from benchmarks.paper.experiment import Bench, Experiment, claim
from benchmarks.paper.parts.families import Edits, Family, Plan, family
from benchmarks.paper.parts.judging import KINDS, RELATED, UNRELATED, Group, evidence, of_folders, of_networks
from benchmarks.paper.parts.mlp import survival_families
from benchmarks.paper.parts.models import Shape
from benchmarks.paper.parts.plots import lines, panels
from benchmarks.paper.parts.public import HUB
from benchmarks.paper.parts.results import Row
from benchmarks.paper.parts.sketching import Errors, exponent, rms
from benchmarks.paper.parts.training import Schedule
from hf_lineage import RECIPES
from hf_lineage.evidence.comparison import Comparison, compare_paths

EXACT = replace(RECIPES["robust"], probes=None)
FEW = Edits((0.1,), (0.7,), (64,))
SMOKE = Plan(
    Shape(inputs=8, width=128, hidden=128, layers=3), samples=256, schedule=Schedule(20), tuning=Schedule(5, rate=3e-4),
    distillation=Schedule(10), tuned=1, edits=FEW, independent=1, other_task=0, untrained=0, students=1,
)  # fmt: skip
LITE = replace(
    SMOKE, shape=Shape(width=1024, hidden=1024, layers=4), samples=1024, schedule=Schedule(30),
    tuning=Schedule(8, rate=3e-4), distillation=Schedule(15), independent=2,
)  # fmt: skip
PAPER = replace(LITE, shape=Shape(width=4096, hidden=4096, layers=4))
"""Wide residual MLPs, trained for a shorter time than the narrow ones."""
CHOSEN = "the assignment pairs the layers whose errors make them most alike: more layers, larger bias"
TOLD = 0.1
"""From which bias on the reason is told."""
STATED = (0.7, 1.4)
"""Between which an error's standard deviation may lie, in stated standard errors: few draws, and a share of pairs."""
BIAS = 0.5
"""The largest mean error with exact mode's pairing, in stated standard errors: all pairs share their probes."""
SLOPE = 0.2
"""By how much the exponent of k may differ from -1/2."""


def groups(bench: Bench) -> Iterator[tuple[Group, Sequence[int]]]:
    """Yield the Llamas of the example Hub, deep residual MLPs, and wide ones, each with numbers of probes to try."""
    yield llamas(bench.sized(2, 3, 3)), bench.sized((16, 64), (8, 16, 32, 64), (8, 16, 32, 64))
    yield networks("deep MLP", survival_families(bench)[0]), bench.sized((8,), (8, 16, 32), (8, 16, 32))
    wide, most = family(bench.cache, bench.sized(SMOKE, LITE, PAPER), 0), bench.sized(6, 10, 12)
    yield networks("wide MLP", wide), [2**power for power in range(most - 4, most)]


def llamas(count: int) -> Group:
    """Return the base beside so many of its descendants and of its strangers."""
    base = "acme/llama-base"
    chosen = {
        RELATED: ("fern/llama-finetune-a", "heron/llama-pruned-50", "moss/llama-continued")[:count],
        UNRELATED: ("otter/llama-independent", "magpie/llama-liar", "heron/llama-distilled")[:count],
    }
    names = [base, *chosen[RELATED], *chosen[UNRELATED]]
    pairs = {kind: [(base, name) for name in some] for kind, some in chosen.items()}
    return Group("Llama", of_folders({name: HUB / name for name in names}), pairs)


def networks(name: str, found: Family) -> Group:
    """Return the reference of a family of MLPs beside the last of every kind of suspect."""
    kinds = {RELATED: found.related, UNRELATED: found.unrelated}
    last = {kind: several[len(several) - 1] for some in kinds.values() for kind, several in some.items()}
    pairs = {kind: [("reference", suspect) for suspect in suspects] for kind, suspects in kinds.items()}
    return Group(name, of_networks({"reference": found.reference, **last}), pairs)


Found = dict[str, dict[int, Errors]]
"""By kind and k."""


def measured(group: Group, probes: Sequence[int], draws: int) -> Found:
    """Return the errors of all pairs of a group."""
    exact = {name: make(EXACT) for name, make in group.models.items()}
    truth = {pair: evidence(exact[pair[0]], exact[pair[1]]) for pairs in group.pairs.values() for pair in pairs}
    found: Found = {kind: {} for kind in KINDS}
    for k in probes:
        drawn = [replace(EXACT, probes=k, sketch_version=version) for version in range(1, draws + 1)]
        sketched = {pair: list[Comparison]() for pair in truth}
        for recipe in drawn:
            signatures = {name: make(recipe) for name, make in group.models.items()}
            for pair, several in sketched.items():
                several.append(compare_paths(*(signatures[name] for name in pair)))
        for kind in KINDS:
            errors = found[kind].setdefault(k, Errors())
            for pair in group.pairs[kind]:
                errors.add(truth[pair], sketched[pair])
    return found


def identical(group: Group, k: int, draws: int) -> float:
    """Return the largest error of a model beside itself, over the draws."""
    make, *_ = group.models.values()
    several = (make(replace(EXACT, probes=k, sketch_version=version)) for version in range(1, draws + 1))
    return max(abs(compare_paths(each, each).score - 1) for each in several)


def rows(bench: Bench) -> Sequence[Row]:
    """Return the errors by models, kind of pair and k, and the time of an extraction, and draw both."""
    draws, found, drawn = bench.sized(24, 24, 100), list[Row](), dict[str, Found]()
    for group, probes in groups(bench):
        drawn[group.name] = measured(group, probes, draws)
        for kind, by_k in drawn[group.name].items():
            for k, errors in by_k.items():
                found += figures(f"{group.name}, {kind}, k = {k}", errors)
            if len(by_k) > 1:
                found.append(Row(f"{group.name}, {kind}: exponent of k", None, exponent(by_k), "-0.5 is 1/√k"))
        clean = identical(group, min(probes), draws)
        found.append(Row(f"{group.name}, a model and itself: largest error", None, clean, f"k = {min(probes)}"))
    saved = times(group, probes, bench.sized(3, 5, 5))
    draw(bench, drawn, saved)
    return [*found, *saved.values()]


def figures(where: str, errors: Errors) -> list[Row]:
    """Return the rows of one kind of pair and one k."""
    stated = rms(errors.stated)
    mean, paired = (float(np.mean(some)) / stated for some in (errors.score, errors.paired))
    return [
        Row(f"{where}: standard deviation", None, errors.deviation, f"{errors.draws} draws; stated {stated:.2g}"),
        Row(f"{where}: standard deviation, in stated", None, errors.deviation / stated, "with exact mode's pairing"),
        Row(f"{where}: mean error, in stated", None, paired, "with exact mode's pairing"),
        Row(f"{where}: mean error of the score, in stated", None, mean, CHOSEN if mean - paired > TOLD else ""),
        Row(f"{where}: within two stated", None, errors.within, "of the score; 95 % would be normal"),
        Row(f"{where}: verdicts changed", None, errors.changed, f"of {errors.draws}"),
    ]


def times(group: Group, probes: Sequence[int], rounds: int) -> dict[int, Row]:
    """Return by k how much longer exact mode takes for one model, extraction alone."""
    make, *_ = group.models.values()
    width = make(EXACT).sketch.shape[1]
    tasks = {str(k): partial(make, replace(EXACT, probes=k)) for k in probes}
    taken = interleaved({**tasks, "exact": partial(make, EXACT)}, rounds)
    note = "{multiplied:.3g} times the multiplications, d / 2k; exact mode takes {seconds:.2g} s"
    exact = statistics.median(taken["exact"])
    return {
        k: Row(
            f"{group.name}, k = {k}: seconds, exact over sketch", None, ratio(taken["exact"], taken[str(k)]),
            note.format(multiplied=width / 2 / k, seconds=exact),
        )
        for k in probes
    }  # fmt: skip


def draw(bench: Bench, found: Mapping[str, Found], saved: Mapping[int, Row]) -> None:
    """Draw error and stated error by k, and the time that a sketch saves."""
    drawing, axes = panels(len(found) + 1, size=(2.6, 2.8))
    for place, (name, by_kind) in zip(axes, found.items(), strict=False):
        series = {}
        for kind, by_k in by_kind.items():
            series[f"{kind} pairs: root mean square error"] = [rms(errors.score) for errors in by_k.values()]
            series[f"{kind} pairs: stated"] = [rms(errors.stated) for errors in by_k.values()]
        plotted(place, list(by_kind[RELATED]), series)
        place.set_yscale("log")
        place.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        place.yaxis.set_major_formatter("{x:g}")
        place.minorticks_off()
        place.set_title(name)
    axes[0].set_ylabel("error of the score")
    plotted(axes[-1], list(saved), {"": [row.number for row in saved.values()]})
    axes[-1].set(title="extraction, wide MLP", ylabel="time, exact over sketch", ylim=(0, None))
    drawing.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    bench.draw("ours-sketch", drawing)


def plotted(axes: Axes, probes: Sequence[int], series: Mapping[str, Sequence[float]]) -> None:
    """Draw series over k, on a logarithmic axis with a tick for each."""
    lines(axes, probes, series)
    legend = axes.get_legend()
    if legend is not None:
        legend.remove()
    axes.set_xscale("log", base=2)
    axes.set_xticks(probes, [str(k) for k in probes])
    axes.set_xlabel("k, number of probes")


def holds(rows: Mapping[str, Row]) -> None:
    """Errors are as large as stated, fall as 1/√k and change no verdict; a model beside itself has none."""
    for name, row in rows.items():
        if name.endswith("standard deviation, in stated"):
            claim(STATED[0] < row.number < STATED[1], f"{name} is {row.number:.2f}")
        if name.endswith(": mean error, in stated"):
            claim(abs(row.number) < BIAS, f"{name} is {row.number:.2f}")
        if name.endswith("exponent of k"):
            claim(abs(row.number + 0.5) < SLOPE, f"{name} is {row.number:.2f}")
        if name.endswith("verdicts changed"):
            claim(row.number == 0, f"{name} is {row.number:.0f}")
        if name.endswith("largest error"):
            claim(row.number < 1e-6, f"{name} is {row.number:.1e}")


EXPERIMENTS = (Experiment("ours:sketch", "sketches against exact mode", rows, holds),)
