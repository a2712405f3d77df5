"""`ours:sketch`: the score from k random probes against the exact one: its error, what it claims to be, what it saves.

Probes are drawn once and for all from the recipe's `sketch_version`: another version draws others.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from benchmarks.clock import interleaved, ratio
from benchmarks.paper.experiment import Bench, Experiment, claim
from benchmarks.paper.parts.families import Edits, Family, Plan, family
from benchmarks.paper.parts.judging import KINDS, RELATED, UNRELATED, Group, evidence, of_folders, of_networks
from benchmarks.paper.parts.judging import verdict as judged
from benchmarks.paper.parts.mlp import survival_families
from benchmarks.paper.parts.models import Shape
from benchmarks.paper.parts.plots import lines, panels
from benchmarks.paper.parts.public import HUB
from benchmarks.paper.parts.results import Row
from benchmarks.paper.parts.training import Schedule
from hf_lineage import RECIPES
from hf_lineage.comparison import Comparison, compare_paths
from hf_lineage.verdict import Evidence

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
STATED = (0.6, 1.6)
"""Between which an error's standard deviation may lie, in stated standard errors: few draws, and a share of pairs."""
SLOPE = 0.15
"""By how much the exponent of k may differ from -1/2."""


def groups(bench: Bench) -> Iterator[tuple[Group, Sequence[int]]]:
    """Yield the Llamas of the example Hub, deep residual MLPs, and wide ones, each with numbers of probes to try."""
    yield llamas(bench.sized(1, 3, 3)), bench.sized((16, 64), (8, 16, 32, 64), (8, 16, 32, 64))
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


@dataclass
class Errors:
    """What sketches make of the pairs of one kind, for one k: (pairs, draws) each."""

    score: list[list[float]] = field(default_factory=list)
    """Sketched minus exact score."""
    paired: list[list[float]] = field(default_factory=list)
    """The same, with the layers paired as exact mode pairs them."""
    stated: list[list[float]] = field(default_factory=list)
    """The standard error that the library states."""
    changed: int = 0
    """How many verdicts are not that of exact mode."""

    def add(self, exact: Evidence, sketched: Sequence[Comparison]) -> None:
        """Add the sketches of one pair."""
        right = exact.comparison
        self.score.append([each.score - right.score for each in sketched])
        self.paired.append([float(each.similarity[right.pairs].mean()) - right.score for each in sketched])
        self.stated.append([each.standard_error for each in sketched])
        names = [judged(replace(exact, comparison=each)).name for each in sketched]
        self.changed += sum(name != judged(exact).name for name in names)

    @property
    def deviation(self) -> float:
        """The standard deviation over the draws, of all pairs."""
        return rms(np.std(self.score, axis=1, ddof=1))

    @property
    def draws(self) -> int:
        """Of all pairs."""
        return int(np.size(self.score))

    @property
    def within(self) -> float:
        """The share of errors of at most two stated standard errors."""
        return float(np.mean(np.abs(self.score) <= 2 * np.array(self.stated)))


def rms(values: object) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(np.square(np.asarray(values)))))


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


def exponent(by_k: Mapping[int, Errors]) -> float:
    """Return the exponent of k in the standard deviation, by least squares; NaN of a single k."""
    if len(by_k) < 2:
        return float("nan")
    logs: NDArray[np.float64] = np.log([[k, errors.deviation] for k, errors in by_k.items()])
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def rows(bench: Bench) -> Sequence[Row]:
    """Return the errors by models, kind of pair and k, and the time of an extraction, and draw both."""
    draws, found, drawn = bench.sized(24, 24, 100), list[Row](), dict[str, Found]()
    for group, probes in groups(bench):
        drawn[group.name] = measured(group, probes, draws)
        for kind, by_k in drawn[group.name].items():
            for k, errors in by_k.items():
                found += figures(f"{group.name}, {kind}, k = {k}", errors)
            found.append(Row(f"{group.name}, {kind}: exponent of k", None, exponent(by_k), "-0.5 is 1/√k"))
        clean = identical(group, min(probes), draws)
        found.append(Row(f"{group.name}, a model and itself: largest error", None, clean, f"k = {min(probes)}"))
    saved = times(group, probes, bench.sized(3, 5, 5))
    draw(bench, drawn, saved)
    return [*found, *saved.values()]


def figures(where: str, errors: Errors) -> list[Row]:
    """Return the rows of one kind of pair and one k."""
    stated = rms(errors.stated)
    return [
        Row(f"{where}: standard deviation", None, errors.deviation, f"{errors.draws} draws; stated {stated:.2g}"),
        Row(f"{where}: standard deviation, in stated", None, errors.deviation / stated),
        Row(
            f"{where}: mean error, in stated", None, float(np.mean(errors.score)) / stated,
            f"{np.mean(errors.paired) / stated:.2g} with the layers paired as in exact mode",
        ),
        Row(f"{where}: within two stated", None, errors.within, "95 % where errors are normal and stated rightly"),
        Row(f"{where}: verdicts changed", None, errors.changed, f"of {errors.draws}"),
    ]  # fmt: skip


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
    drawing, axes = panels(len(found) + 1, size=(2.9, 2.8))
    for place, (name, by_kind) in zip(axes, found.items(), strict=False):
        probes = list(by_kind[RELATED])
        series = {}
        for kind, by_k in by_kind.items():
            series[f"{kind}: error"] = [errors.deviation for errors in by_k.values()]
            series[f"{kind}: stated"] = [rms(errors.stated) for errors in by_k.values()]
        lines(place, probes, series)
        place.set(title=name, xlabel="k, number of probes", ylabel="standard deviation of the score")
        scaled(place, probes)
        place.set_yscale("log")
    lines(axes[-1], list(saved), {"exact over sketch": [row.number for row in saved.values()]})
    axes[-1].set(title="time of an extraction", xlabel="k, number of probes", ylabel="exact over sketch")
    scaled(axes[-1], list(saved))
    bench.draw("ours-sketch", drawing)


def scaled(axes: Axes, probes: Sequence[int]) -> None:
    """Make the axis of k logarithmic, with a tick for each."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(probes, [str(k) for k in probes])
    axes.minorticks_off()


def holds(rows: Mapping[str, Row]) -> None:
    """Errors are as large as stated, fall as 1/√k and change no verdict; a model beside itself has none."""
    for name, row in rows.items():
        if name.endswith("standard deviation, in stated"):
            claim(STATED[0] < row.number < STATED[1], f"{name} is {row.number:.2f}")
        if name.endswith("exponent of k") and row.ours is not None:
            claim(row.number != row.number or abs(row.number + 0.5) < SLOPE, f"{name} is {row.number:.2f}")
        if name.endswith("verdicts changed"):
            claim(row.number == 0, f"{name} is {row.number:.0f}")
        if name.endswith("largest error"):
            claim(row.number < 1e-6, f"{name} is {row.number:.1e}")


EXPERIMENTS = (Experiment("ours:sketch", "sketches against exact mode", rows, holds),)
