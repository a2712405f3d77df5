"""Stage: one test of a claim, which others may follow, and the two models that are tested, with what is known of both.

What is known is found once, before any weights are read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from hf_lineage.architecture.schema import NAMED, PATHS, resolve_paths
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.measure import analyses as count_analyses
from hf_lineage.evidence.measure import reading_order
from hf_lineage.evidence.verdict import Verdict
from hf_lineage.signature.sample import Sample, fits
from hf_lineage.signature.values import FILE, Signature
from hf_lineage.source.model import FromWeights, OpenedModel
from hf_lineage.source.options import Options


@dataclass(frozen=True)
class Sampling:
    """Two models that a sample can show."""

    base: FromWeights
    candidate: FromWeights
    sample: Sample
    paths: tuple[str, ...]

    def signatures(self, layers: Collection[int], all_units: bool = False) -> tuple[Signature, Signature]:
        """Return the signatures of a sample of these layers, of some or all of their units.

        Raise LineageError if they cannot be read.
        """
        sample = replace(self.sample, all_units=all_units)
        base, candidate = (model.reading.sampled(self.paths, layers, sample) for model in (self.base, self.candidate))
        return base, candidate


@dataclass(frozen=True)
class ModelPair:
    """Two opened models and the options by which they are compared, and what these make of the two."""

    base: OpenedModel
    candidate: OpenedModel
    options: Options
    declared: bool = False
    """Whether the candidate itself declares the base: then it has no reason to hide that it comes from it."""

    @classmethod
    def along_common_paths(
        cls, base: OpenedModel, candidate: OpenedModel, options: Options, declared: bool = False
    ) -> ModelPair:
        """Return two models; where the options name all paths, they are compared along those that both have."""
        common = tuple(path for path in PATHS if path in base.rows and path in candidate.rows)
        paths = resolve_paths(options.paths, common) if common else options.paths
        return cls(base, candidate, replace(options, paths=paths), declared)

    @functools.cached_property
    def incompatible(self) -> str:
        """Why the products of both cannot be compared, in the coordinates of the residual stream; or empty."""
        base, candidate = self.base, self.candidate
        if base.width != candidate.width or (base.layers != candidate.layers and candidate.in_blocks):
            return (
                f"{base.name} has {base.layers} layers of width {base.width}, "
                f"{candidate.name} has {candidate.layers} of width {candidate.width}"
            )
        if self.options.paths in NAMED:
            own = (f"{model.name} has {', '.join(model.rows)}" for model in (base, candidate))
            return f"no path is in both models: {', '.join(own)}"
        return self.unlike_layers

    @functools.cached_property
    def unlike_layers(self) -> str:
        """Return why paths cannot be compared: unlike widths of layers, or with `--null` unlike numbers; or empty.

        If all layers have one width, all layers of the shallower model are paired; a permutation then changes their
        score as it does at equal depth. Empirical nulls need models of equal depth.
        """
        base, candidate = self.base, self.candidate
        rows = {path: (base.rows.get(path), candidate.rows.get(path)) for path in self.options.paths}
        return "; ".join(
            f"{base.name} has {path} in {_layers(base_rows)}, {candidate.name} in {_layers(candidate_rows)}; "
            f"leave {what} out"
            for path, (base_rows, candidate_rows) in rows.items()
            if base_rows and candidate_rows and (what := _obstacle(base_rows, candidate_rows, self.options.nulls))
        )

    @functools.cached_property
    def plan(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The layers in the order in which they are read, and how many of them have been read at each analysis.

        Layers of unlike widths are all read: a few of them would not represent the rest. If the user gave two
        signatures, all layers are at hand, and stopping early would save nothing.
        """
        base, candidate, options = self.base, self.candidate, self.options
        everything = tuple(range(max(base.layers, candidate.layers)))
        plain = dict.fromkeys(everything, candidate.width)
        alike = all(model.rows.get(path) == plain for model in (base, candidate) for path in options.paths)
        at_hand = base.origin == candidate.origin == FILE
        if at_hand or options.budget == "full" or options.nulls or options.recipe.probes is None or not alike:
            return everything, (len(everything),)
        layers = len(everything)
        return reading_order(layers, options.seed or 0), count_analyses(layers, options.min_share)

    @functools.cached_property
    def sampling(self) -> Sampling | None:
        """Return the sampling of both; None where they are compared by whole layers alone, or these are read at once.

        Both have to be read from their weights, and layers of the same number to have equally many units.
        """
        base, candidate, options = self.base, self.candidate, self.options
        if self.incompatible or len(self.plan[1]) == 1:
            return None
        if not isinstance(base, FromWeights) or not isinstance(candidate, FromWeights):
            return None
        sizes = _sizes(base, options)
        same = sizes and sizes == _sizes(candidate, options)
        return Sampling(base, candidate, Sample(options.seed or 0), options.paths) if same else None


def _sizes(model: FromWeights, options: Options) -> tuple[int, ...]:
    """Return the number of units per layer along every path; empty if some of it cannot be read some rows at a time."""
    layout, checkpoint = model.opened.layout, model.opened.checkpoint
    if not all(fits(layout, checkpoint, path) for path in options.paths):
        return ()
    return tuple(layout.parts(path, layer) for path in options.paths for layer in range(layout.layers))


def _obstacle(base: Mapping[int, int], candidate: Mapping[int, int], nulls: Sequence[str]) -> str:
    """Return what the user has to leave out before two models can be compared, empty if they can be."""
    if sorted(base.values()) == sorted(candidate.values()):
        return ""
    if len({*base.values(), *candidate.values()}) > 1:
        return "this path"
    return "--null" if nulls else ""


def _layers(rows: Mapping[int, int]) -> str:
    widths = tuple(rows.values())
    return f"{len(rows)} layers" + (f" of widths {', '.join(map(str, widths))}" if len(set(widths)) > 1 else "")


@dataclass(frozen=True)
class Stage:
    """One test of a claim. Every test that is possible has its part of alpha, whether it is made in the end or not."""

    name: str
    """Way in which it compares two models: reports name it if it could not."""
    possible: Callable[[ModelPair], bool]
    """Whether it may be made, by what is known before any weights are read."""
    run: Callable[[ModelPair, Criteria, Verdict | None], Verdict | None]
    """Return what it shows, None where it leaves the verdict as it is; raise LineageError for unreadable files.

    NothingToCompare is raised where the two models cannot be compared in this way.
    """
    analyses: Callable[[ModelPair], int] = lambda _pair: 1
    """Return the largest number of its p-values; each takes an equal part of alpha (Bonferroni)."""
    follows: bool = False
    """Whether it follows a verdict, which it is given; the others are made until there is one."""
    interim: bool = False
    """Whether its p-values are interim analyses of the products of the paths."""
