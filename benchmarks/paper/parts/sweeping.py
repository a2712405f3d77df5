"""Sweeping: what a verdict depends on besides two models, and how many pairs are called related under each setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from benchmarks.paper.parts.cache import Cache
from benchmarks.paper.parts.judging import DEFAULT, Group, Pairs, evidence, verdict
from hf_lineage import RECIPES, Recipe
from hf_lineage.evidence.criteria import MINIMUM_EFFECT
from hf_lineage.evidence.measure import reading_order
from hf_lineage.evidence.verdict import Evidence
from hf_lineage.signature.values import PARTS, PathSignature

VERSION = 3
"""Raised when the code below or that of the library comes to give other verdicts."""
ROBUST = RECIPES["robust"]


@dataclass(frozen=True)
class Setting:
    """What a verdict depends on besides two signatures."""

    alpha: float = DEFAULT.alpha
    floor: float = MINIMUM_EFFECT
    permutations: int = DEFAULT.permutations


@dataclass(frozen=True)
class Share:
    """How many of some pairs are called related."""

    related: int = 0
    pairs: int = 0

    def __add__(self, other: Share) -> Share:
        return Share(self.related + other.related, self.pairs + other.pairs)

    def __str__(self) -> str:
        return f"{self.related} of {self.pairs}"

    @property
    def others(self) -> Share:
        """The pairs that are not."""
        return Share(self.pairs - self.related, self.pairs)

    @property
    def share(self) -> float:
        """As a number; 0 of no pairs."""
        return self.related / max(self.pairs, 1)


Found = Mapping[str, Share]
"""By kind of pair."""


def told(cache: Cache, group: Group, settings: Sequence[Setting], recipe: Recipe = ROBUST) -> list[Found]:
    """Return for every setting how many pairs of each kind are related, judged now or before."""
    needed = {name for pairs in group.pairs.values() for pair in pairs for name in pair}
    signatures = {name: group.models[name](recipe) for name in sorted(needed)}
    counts = {setting.permutations for setting in settings}
    found: list[dict[str, Share]] = [{} for _ in settings]
    for kind, pairs in group.pairs.items():

        def judged(pairs: Pairs = pairs) -> list[int]:
            measured = ({count: evidence(signatures[a], signatures[b], count) for count in counts} for a, b in pairs)
            answers = [[related(each[setting.permutations], setting) for setting in settings] for each in measured]
            return [sum(column) for column in zip(*answers, strict=True)] or [0] * len(settings)

        traces = [[list(map(float, signatures[name].trace)) for name in pair] for pair in pairs]
        depends = [VERSION, asdict(recipe), [asdict(setting) for setting in settings], traces]
        for each, count in zip(found, cache.kept("verdicts", depends, judged), strict=True):
            each[kind] = Share(count, len(pairs))
    return list(found)


def related(found: Evidence, setting: Setting) -> bool:
    """Return whether evidence of so many permutations at first says related under a setting."""
    return verdict(found, setting.alpha, setting.floor).is_related


def pieces(count: int, layers: int) -> range:
    """Return where in an order of layers its pieces of so many begin; what is left over is in none of them."""
    return range(0, max(layers - count, 0) + 1, count)


def read(count: int, whole: PathSignature, start: int = 0) -> PathSignature:
    """Return so many layers of a signature from a start on, in one order in which the library may read them."""
    return whole.select(sorted(_order(whole)[start : start + count]))


def living(count: int, whole: PathSignature) -> PathSignature:
    """Return a signature as if all but so many layers, the same, had branches without weight."""
    chosen = np.isin(np.arange(len(whole.trace)), _order(whole)[:count])
    kept = {part: getattr(whole, part) for part in PARTS}
    return PathSignature(**{part: (value.T * chosen).T for part, value in kept.items()})


def _order(whole: PathSignature) -> tuple[int, ...]:
    return reading_order(len(whole.trace), DEFAULT.seed or 0)


def seen(group: Group, change: Callable[[PathSignature], PathSignature]) -> Group:
    """Return a group of which every signature is changed."""
    return replace(group, models={name: partial(_changed, make, change) for name, make in group.models.items()})


def _changed(
    make: Callable[[Recipe], PathSignature], change: Callable[[PathSignature], PathSignature], recipe: Recipe
) -> PathSignature:
    return change(make(recipe))
