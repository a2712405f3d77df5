"""`ours:verdict`: α, the floor under the score, m and the like, each varied around its default.

How many independent pairs are called related, and how many descendants are missed. The p-values of two pairs that have
one model in common are independent of each other all the same, since each is uniform whatever that model is: the number
of false verdicts has the variance of as many independent tests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.paper.experiment import Bench, Experiment, claim
from benchmarks.paper.parts.judging import DEFAULT, FAINT, RELATED, UNRELATED, Group
from benchmarks.paper.parts.pools import GRAFTS, SHARES, graft, merge, only, pools
from benchmarks.paper.parts.results import Row
from benchmarks.paper.parts.sweeping import ROBUST, Found, Setting, Share, living, pieces, read, seen, told
from hf_lineage.evidence.criteria import MINIMUM_EFFECT
from hf_lineage.evidence.permutation import FEWEST_COORDINATES

STANDARD_DEVIATIONS = 3
"""By how many of them more false verdicts than α would be too many."""
SWEEPS: Mapping[str, Mapping[float, Setting]] = {
    "α": {alpha: Setting(alpha=alpha) for alpha in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)},
    "floor": {floor: Setting(floor=floor) for floor in (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)},
    "permutations": {count: Setting(permutations=count) for count in (99, 199, 499, 999)},
}
COORDINATES, LAYERS, USABLE = (4, 8, 16, 32, 64, 128), (1, 2, 4, 8, 24), (6, 12, 13, 18)
"""m; how many layers are read, one piece after another of an order of the library's; how many have weights, of 24."""
DEFAULTS = {"α": DEFAULT.alpha, "floor": MINIMUM_EFFECT, "permutations": DEFAULT.permutations, "m": ROBUST.coordinates}
FLAT = {
    "α": (0.005, 0.05), "floor": (0.0, 0.05), "permutations": (199, 999), "m": (32, 128), "layers": (4, 24),
    "usable layers": (13, 24),
}  # fmt: skip
"""Between which no descendant is missed, around the defaults."""
STEADY = {"α": (0.005, 0.02), "permutations": (199, 999)}
"""Between which about as many faint descendants are missed as at the defaults; the minimum effect trades them openly:
without one false verdicts are as many as α allows, with that of the default next to none, and faint ones are missed."""
CHANGE = 0.05
"""By how much that share may differ."""
FAINTER = "merges and grafts with a small share missed"


def swept(bench: Bench) -> tuple[dict[str, dict[float, Found]], dict[str, Found], Group]:
    """Return what is found by parameter and value, over all groups, and by group at the defaults; and the first."""
    groups = list(pools(bench))
    settings = [setting for values in SWEEPS.values() for setting in values.values()]
    by_group = {group.name: told(bench.cache, group, [Setting(), *settings]) for group in groups}
    everywhere = [together(several) for several in zip(*by_group.values(), strict=True)]
    places = iter(everywhere[1:])
    found = {name: {value: next(places) for value in values} for name, values in SWEEPS.items()}
    deep, *others = groups
    every = bench.sized(5, 1, 1)
    recipes = {m: replace(ROBUST, coordinates=m) for m in COORDINATES[::every]}
    found["m"] = {
        m: together([told(bench.cache, group, [Setting()], recipe)[0] for group in others])
        for m, recipe in recipes.items()
    }
    own = one_family(deep)
    found["layers"] = {count: read_in_pieces(bench, own, count) for count in LAYERS[::every]}
    found["usable layers"] = {
        count: told(bench.cache, seen(own, partial(living, count)), [Setting()])[0] for count in USABLE[::every]
    }
    return found, {name: several[0] for name, several in by_group.items()}, deep


def read_in_pieces(bench: Bench, group: Group, count: int) -> Found:
    """Return what is found where so many layers are read, over the pieces of one order: each is a draw of its own.

    One draw alone decides over few pairs: an independent pair that happens to be alike in it would be most of them.
    """
    layers = len(next(iter(group.models.values()))(ROBUST).trace)
    starts = pieces(count, layers)
    parts = (seen(group, partial(read, count, start=start)) for start in starts)
    return together([told(bench.cache, part, [Setting()])[0] for part in parts])


def one_family(group: Group) -> Group:
    """Return the pairs of MLPs within the first family: every number of layers is a test of its own for each."""

    def inside(name: str) -> bool:
        return name.partition(":")[0] == "0"

    kept = {kind: [(a, b) for a, b in pairs if inside(a) and inside(b)] for kind, pairs in group.pairs.items()}
    return replace(group, pairs=kept)


def together(several: Sequence[Found]) -> Found:
    """Return what is found in several groups."""
    kinds = (RELATED, FAINT, UNRELATED)
    return {kind: sum((found[kind] for found in several if kind in found), Share()) for kind in kinds}


def rows(bench: Bench) -> Sequence[Row]:
    """Return false and missed verdicts by parameter and value."""
    found, by_group, deep = swept(bench)
    rows = [row for name, each in by_group.items() for row in figures(f"{name}, defaults", each)]
    for parameter, values in found.items():
        for value, each in values.items():
            rows += figures(f"{parameter} = {value:g}", each)
    for what in (*map(merge, SHARES), *map(graft, GRAFTS)):
        (each,) = told(bench.cache, replace(deep, pairs={FAINT: only(deep, what)}), [Setting()])
        rows.append(Row(f"{deep.name}, {what}: called related", None, each[FAINT].share, str(each[FAINT])))
    return rows


def figures(where: str, found: Found) -> list[Row]:
    """Return the rows of one value: false and missed verdicts."""
    columns = {"independent pairs called related": found[UNRELATED], "descendants missed": found[RELATED].others}
    if FAINT in found:
        columns[FAINTER] = found[FAINT].others
    return [Row(f"{where}: {what}", None, share.share, str(share)) for what, share in columns.items()]


def holds(rows: Mapping[str, Row]) -> None:
    """False verdicts are as many as α allows, wherever the defaults are moved to; around them none is missed."""
    for name, row in rows.items():
        where, _, what = name.partition(": ")
        parameter, _, value = where.partition(" = ")
        if what == "independent pairs called related":
            alpha = float(value) if parameter == "α" else DEFAULT.alpha
            pairs = int(row.note.split(" of ")[1])
            most = alpha + STANDARD_DEVIATIONS * math.sqrt(alpha * (1 - alpha) / pairs)
            claim(row.number <= most, f"{where}: {row.note} independent pairs are called related")
        if what == "descendants missed":
            least, most = FLAT.get(parameter, (-math.inf, math.inf))
            if not value or least <= float(value) <= most:
                claim(row.number == 0, f"{where}: {row.note} descendants are missed")
    steady(rows)
    few = rows[f"m = {COORDINATES[0]}: descendants missed"].number
    claim(few == 1 or COORDINATES[0] >= FEWEST_COORDINATES, "a verdict is given where there are too few coordinates")
    half = next(row for name, row in rows.items() if merge(SHARES[-1]) in name)
    claim(half.number == 1, f"of merges of two halves only {half.note} are called related")


def steady(rows: Mapping[str, Row]) -> None:
    """Around the defaults as many faint descendants are missed as there."""
    for parameter, (least, most) in STEADY.items():
        default = rows[f"{parameter} = {DEFAULTS[parameter]:g}: {FAINTER}"].number
        for value in SWEEPS[parameter]:
            missed = rows[f"{parameter} = {value:g}: {FAINTER}"].number
            if least <= value <= most:
                claim(abs(missed - default) <= CHANGE, f"{parameter} = {value:g}: {missed:.0%} of {FAINTER}")


EXPERIMENTS = (Experiment("ours:verdict", "the thresholds of a verdict", rows, holds),)
