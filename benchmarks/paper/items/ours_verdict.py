"""`ours:verdict`: α, the floor under the score, m and the like, each varied around its default.

How many independent pairs are called RELATED, and how many descendants are missed. The p-values of two pairs that have
one model in common are independent of each other all the same, since each is uniform whatever that model is: the number
of false verdicts has the variance of as many independent tests.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from benchmarks.clock import interleaved
from benchmarks.paper.experiment import Bench, Experiment, claim
from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.judging import DEFAULT, KINDS, RELATED, UNRELATED, Group, evidence, verdict
from benchmarks.paper.parts.plots import lines, panels
from benchmarks.paper.parts.pools import faint, pools
from benchmarks.paper.parts.results import Row
from hf_lineage import RECIPES, Recipe
from hf_lineage.calibrate import permutation_null
from hf_lineage.looks import reading_order
from hf_lineage.signature import PathSignature
from hf_lineage.verdict import FEWEST_COORDINATES, FLOOR, Evidence

VERSION = 1
"""Raised when the code below or that of the library comes to give other verdicts."""
ROBUST = RECIPES["robust"]
STANDARD_DEVIATIONS = 3
"""By how many of them more false verdicts than α would be too many."""


@dataclass(frozen=True)
class Setting:
    """What a verdict depends on besides two signatures."""

    alpha: float = DEFAULT.alpha
    floor: float = FLOOR
    permutations: int = DEFAULT.permutations


SWEEPS: Mapping[str, Mapping[float, Setting]] = {
    "α": {alpha: Setting(alpha=alpha) for alpha in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)},
    "floor": {floor: Setting(floor=floor) for floor in (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)},
    "permutations": {count: Setting(permutations=count) for count in (99, 199, 499, 999)},
}
COORDINATES, LAYERS = (4, 8, 16, 32, 64, 128), (1, 2, 4, 8, 24)
"""m, and how many layers are read, in the order in which the library reads them."""
DEFAULTS = {"α": DEFAULT.alpha, "floor": FLOOR, "permutations": DEFAULT.permutations, "m": ROBUST.coordinates}
FLAT = {"α": (0.005, 0.05), "floor": (0.01, 0.05), "permutations": (199, 999), "m": (32, 128), "layers": (4, 24)}
"""Between which no descendant is missed, around the defaults."""


@dataclass(frozen=True)
class Share:
    """How many of some pairs are called RELATED."""

    related: int
    pairs: int

    def __add__(self, other: Share) -> Share:
        return Share(self.related + other.related, self.pairs + other.pairs)

    @property
    def found(self) -> float:
        """The share of RELATED; 0 of no pairs."""
        return self.related / max(self.pairs, 1)

    @property
    def missed(self) -> float:
        """The share of the others; 0 of no pairs."""
        return 1 - self.found if self.pairs else 0.0


Found = Mapping[str, Share]
"""By kind of pair."""


def told(
    cache: Cache, group: Group, settings: Sequence[Setting], recipe: Recipe = ROBUST, layers: int | None = None
) -> list[Found]:
    """Return for every setting how many pairs of each kind are RELATED, judged now or before."""
    needed = {name for pairs in group.pairs.values() for pair in pairs for name in pair}
    signatures = {name: some_layers(group.models[name](recipe), layers) for name in sorted(needed)}

    def judged() -> list[dict[str, int]]:
        counts = [dict.fromkeys(KINDS, 0) for _ in settings]
        for kind, pairs in group.pairs.items():
            for a, b in pairs:
                found = evidence(signatures[a], signatures[b], max(setting.permutations for setting in settings))
                for setting, count in zip(settings, counts, strict=True):
                    count[kind] += related(found, setting)
        return counts

    traces = {name: [float(trace) for trace in each.trace] for name, each in signatures.items()}
    pairs = {kind: [list(pair) for pair in some] for kind, some in group.pairs.items()}
    depends = [VERSION, asdict(recipe), layers, [asdict(setting) for setting in settings], pairs, traces]
    counts = cache.kept("verdicts", depends, judged)
    return [{kind: Share(count[kind], len(group.pairs[kind])) for kind in KINDS} for count in counts]


def some_layers(whole: PathSignature, count: int | None) -> PathSignature:
    """Return the first so many layers of a signature, in the order in which the library reads them, or all."""
    chosen = sorted(reading_order(len(whole.trace))[:count])
    parts = {part: getattr(whole, part)[chosen] for part in ("sketch", "corner", "trace", "norm")}
    return PathSignature(**parts)


def related(found: Evidence, setting: Setting) -> bool:
    """Return whether evidence of at least so many permutations says RELATED, with the first of them alone."""
    null = replace(found.permutation, scores=found.permutation.scores[: setting.permutations])
    fewer = replace(found, permutation=null, p_value=null.p_value)
    return verdict(fewer, setting.alpha, setting.floor).name == "RELATED"


def swept(bench: Bench) -> tuple[dict[str, dict[float, Found]], dict[str, Found]]:
    """Return what is found by parameter and value, over all groups, and by group at the defaults."""
    groups = list(pools(bench))
    settings = [setting for values in SWEEPS.values() for setting in values.values()]
    by_group = {group.name: told(bench.cache, group, [Setting(), *settings]) for group in groups}
    total = [together(several) for several in zip(*by_group.values(), strict=True)]
    places = iter(total[1:])
    found = {name: {value: next(places) for value in values} for name, values in SWEEPS.items()}
    few = groups[1:]
    found["m"] = {
        m: together([told(bench.cache, group, [Setting()], replace(ROBUST, coordinates=m))[0] for group in few])
        for m in COORDINATES
    }
    deep = one_family(groups[0])
    found["layers"] = {count: told(bench.cache, deep, [Setting()], layers=count)[0] for count in LAYERS}
    return found, {name: several[0] for name, several in by_group.items()}


def one_family(group: Group) -> Group:
    """Return the pairs of MLPs within one family: a number of layers is a test for each."""
    kept = {kind: [(a, b) for a, b in pairs if a[0] == b[0] == "0"] for kind, pairs in group.pairs.items()}
    return replace(group, pairs=kept)


def together(several: Sequence[Found]) -> Found:
    """Return what is found in several groups."""
    return {kind: sum((found[kind] for found in several), Share(0, 0)) for kind in KINDS}


def rows(bench: Bench) -> Sequence[Row]:
    """Return false and missed verdicts by parameter and value, what the defaults cost, and draw them."""
    found, by_group = swept(bench)
    rows = [row for name, each in by_group.items() for row in figures(f"{name}, defaults", each)]
    for parameter, values in found.items():
        for value, each in values.items():
            rows += figures(f"{parameter} = {value:g}", each)
    shares = {what: (part, told(bench.cache, group, [Setting()])[0]) for what, part, group in faint(bench)}
    for what, (part, each) in shares.items():
        note = f"{part:.2g} of the reference; {said(each[RELATED])}"
        rows.append(Row(f"{what}: called RELATED", None, each[RELATED].found, note))
    draw(bench, found)
    return [*rows, *costs(bench)]


def figures(where: str, found: Found) -> list[Row]:
    """Return the rows of one value: false and missed verdicts."""
    strangers, descendants = found[UNRELATED], found[RELATED]
    missed = replace(descendants, related=descendants.pairs - descendants.related)
    return [
        Row(f"{where}: independent pairs called RELATED", None, strangers.found, said(strangers)),
        Row(f"{where}: descendants missed", None, descendants.missed, said(missed)),
    ]


def said(share: Share) -> str:
    """Return a share in numbers."""
    return f"{share.related} of {share.pairs}"


def costs(bench: Bench) -> list[Row]:
    """Return the milliseconds of a permutation test by m and by the number of permutations."""
    _, group, *_ = pools(bench)
    a, b = group.pairs[RELATED][0]
    tests = {}
    for m in COORDINATES[1:]:
        ours, theirs = (group.models[name](replace(ROBUST, coordinates=m)) for name in (a, b))
        tests[f"m = {m}"] = partial(permutation_null, ours, theirs, DEFAULT.permutations, DEFAULT.seed)
    for count in SWEEPS["permutations"]:
        tests[f"permutations = {count:g}"] = partial(permutation_null, ours, theirs, int(count), DEFAULT.seed)
    taken = interleaved(tests, bench.sized(3, 20, 20))
    note = f"of a pair of {group.name}s, {len(ours.trace)} layers; the other parameter at its default"
    return [
        Row(f"{name}: milliseconds", None, 1000 * statistics.median(seconds), note) for name, seconds in taken.items()
    ]


def draw(bench: Bench, found: Mapping[str, Mapping[float, Found]]) -> None:
    """Draw false and missed verdicts by parameter, the default dotted."""
    labels = {"α": "α", "floor": "floor under the score", "m": "m, coordinates", "layers": "layers read"}
    drawing, axes = panels(len(found), size=(2.5, 2.6))
    for place, (name, values) in zip(axes, found.items(), strict=True):
        series = {
            "independent pairs called RELATED": [each[UNRELATED].found for each in values.values()],
            "descendants missed": [each[RELATED].missed for each in values.values()],
        }
        lines(place, list(values), series)
        legend = place.get_legend()
        if legend is not None:
            legend.remove()
        place.set_xscale("symlog", linthresh=0.01) if name == "floor" else place.set_xscale("log")
        ticks = [value for value in values if name != "α" or value in (0.002, 0.01, 0.1)]
        place.set_xticks(ticks, [f"{value:g}" for value in ticks], fontsize=7)
        place.minorticks_off()
        place.set(xlabel=labels.get(name, name), ylim=(-0.02, 1.02))
        if name in DEFAULTS:
            place.axvline(DEFAULTS[name], color="0.7", linestyle=":", linewidth=1, zorder=0)
    axes[0].set_ylabel("share of pairs")
    drawing.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    bench.draw("ours-verdict", drawing)


def holds(rows: Mapping[str, Row]) -> None:
    """False verdicts are as many as α allows, wherever the defaults are moved to; around them none is missed."""
    for name, row in rows.items():
        where, _, what = name.partition(": ")
        parameter, _, value = where.partition(" = ")
        if what == "independent pairs called RELATED":
            alpha = float(value) if parameter == "α" else DEFAULT.alpha
            pairs = int(row.note.split(" of ")[1])
            most = alpha + STANDARD_DEVIATIONS * math.sqrt(alpha * (1 - alpha) / pairs)
            claim(row.number <= most, f"{where}: {row.note} independent pairs are called RELATED")
        if what == "descendants missed":
            least, most = FLAT.get(parameter, (-math.inf, math.inf))
            if not value or least <= float(value) <= most:
                claim(row.number == 0, f"{where}: {row.note} descendants are missed")
    few = rows[f"m = {COORDINATES[0]}: descendants missed"].number
    claim(few == 1 or COORDINATES[0] >= FEWEST_COORDINATES, "a verdict is given where there are too few coordinates")
    claim(rows["merge with 50% of the weights: called RELATED"].number == 1, "merges of two halves are missed")


EXPERIMENTS = (Experiment("ours:verdict", "the thresholds of a verdict", rows, holds),)
