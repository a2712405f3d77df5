"""Judgement: two opened models -> a verdict, after as many layers as it takes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hf_lineage import interim, nulls, verdict
from hf_lineage.calibrate import EmpiricalNull, sequential_null
from hf_lineage.comparison import Comparison, compare_paths
from hf_lineage.errors import NothingToCompare
from hf_lineage.evaluate import Criteria, holm, judge
from hf_lineage.inherited import inherited_units
from hf_lineage.options import Options
from hf_lineage.repo import RepoRef
from hf_lineage.signature import PathSignature, Signature, same_recipe
from hf_lineage.subject import Subject, open_subject

NOT_EXCHANGEABLE = (
    "the architecture does not treat all residual coordinates alike, so the permutation null does not hold; "
    "name independent models with --null"
)


def judgeable(source: RepoRef | Signature, options: Options, is_base: bool = False) -> Subject | verdict.Unverifiable:
    """Return the opened model, or the verdict that says why there is nothing to judge."""
    try:
        return open_subject(source, options, is_base)
    except NothingToCompare as error:
        return verdict.Unverifiable(str(error))


def judged(
    base: Subject | verdict.Unverifiable, suspect: Subject | verdict.Unverifiable, options: Options
) -> verdict.Verdict:
    """Return the verdict on two models; raise LineageError where one of them cannot be read."""
    if isinstance(base, verdict.Unverifiable):
        return base
    if isinstance(suspect, verdict.Unverifiable):
        return suspect
    if base.width != suspect.width:
        return verdict.Incompatible(
            f"{base.name} has {base.layers} layers of width {base.width}, "
            f"{suspect.name} has {suspect.layers} of width {suspect.width}"
        )
    if unlike := _unlike(base, suspect, options):
        return verdict.Incompatible(unlike)
    try:
        return _read(base, suspect, options)
    except NothingToCompare as error:
        return verdict.Unverifiable(str(error))


def _unlike(base: Subject, suspect: Subject, options: Options) -> str:
    """Which paths cannot be compared: in layers of other widths of one model, and beside `--null` in more of them.

    Where all layers have one width those of the shallower model are all paired, and a relabelling does to their score
    what it does at equal depth. Empirical nulls are of models of one depth.
    """
    rows = {path: (base.rows.get(path), suspect.rows.get(path)) for path in options.paths}
    return "; ".join(
        f"{base.name} has {path} in {_layers(ours)}, {suspect.name} in {_layers(theirs)}; leave {what} out"
        for path, (ours, theirs) in rows.items()
        if ours and theirs and (what := _in_the_way(ours, theirs, options))
    )


def _in_the_way(ours: Mapping[int, int], theirs: Mapping[int, int], options: Options) -> str:
    """What keeps the layers of two models from being compared, empty for nothing."""
    if sorted(ours.values()) == sorted(theirs.values()):
        return ""
    if len({*ours.values(), *theirs.values()}) > 1:
        return "this path"
    return "--null" if options.nulls else ""


def _layers(rows: Mapping[int, int]) -> str:
    widths = tuple(rows.values())
    return f"{len(rows)} layers" + (f" of widths {', '.join(map(str, widths))}" if len(set(widths)) > 1 else "")


def _read(base: Subject, suspect: Subject, options: Options) -> verdict.Verdict:
    """The verdict at the first analysis that leaves no doubt."""
    seed = options.order_seed or 0
    order, stops = _plan(base, suspect, options, seed)
    known = nulls.empirical_nulls(base, suspect, options, functools.partial(_against, base, options))
    analysis = _Analysis(len(stops), known, options, seed)
    criteria = Criteria(options.alpha, options.min_share, options.accept)
    for read in stops:
        ours, theirs = (_seen(model, order[:read]) for model in (base, suspect))
        same_recipe(ours, theirs)
        objection = "" if ours.exchangeable and theirs.exchangeable else NOT_EXCHANGEABLE
        outcome = judge(analysis.measured(ours, theirs, objection), replace(criteria, objection=objection))
        if _clear(outcome, read, len(order), criteria):
            break
    return outcome


def _against(base: Subject, options: Options, other: Subject) -> verdict.Verdict:
    """The verdict on the base and a model that is named as a null."""
    unlike = _unlike(base, other, options)
    return verdict.Incompatible(unlike) if unlike else judged(base, other, replace(options, nulls=(), budget="full"))


def _plan(base: Subject, suspect: Subject, options: Options, seed: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The layers in the order in which they are read, and how many of them have been read at each analysis.

    Layers of several kinds are all read: a few of them would not stand for the rest.
    """
    everything = tuple(range(max(base.layers, suspect.layers)))
    plain = dict.fromkeys(everything, suspect.width)
    alike = all(model.rows.get(path) == plain for model in (base, suspect) for path in options.paths)
    hurried = options.budget == "quick" or (options.budget is None and not (base.local and suspect.local))
    if not hurried or options.nulls or options.recipe.probes is None or not alike:
        return everything, (len(everything),)
    layers = len(everything)
    return interim.reading_order(layers, seed), interim.analyses(layers, options.min_share)


def _seen(model: Subject, read: tuple[int, ...]) -> Signature:
    """A model as far as it is read; all of a signature that was given instead, for a layer may have been moved.

    What our own cache holds is no more than its weights would have shown: a report does not depend on what is kept.
    """
    return model.signature() if model.origin.given else model.signature([n for n in read if n < model.layers])


def _clear(outcome: verdict.Verdict, read: int, layers: int, criteria: Criteria) -> bool:
    """Whether the layers that are left could change nothing."""
    if isinstance(outcome, verdict.Related):
        bounds = [_bound(measured, read, layers) for measured in outcome.evidence.values()]
        return outcome.verified and min(bounds) > criteria.min_share
    if outcome.reason == NOT_EXCHANGEABLE:
        return True
    doubtful = any(each.permutation.p_value <= interim.DOUBTFUL for each in outcome.evidence.values())
    return isinstance(outcome, verdict.Unrelated) and read >= interim.enough(layers) and not doubtful


def _bound(measured: verdict.Evidence, read: int, layers: int) -> float:
    """The least share of all layers that is inherited, whatever the unread ones hold (one-sided, 99 %)."""
    inherited = measured.inherited
    if inherited is None or not inherited.layers:
        return 0.0
    shares = inherited.by_layer[list(inherited.layers)]
    return interim.at_least(len(shares), read, layers) / layers * max(0.0, float(shares.mean()) - inherited.error)


@dataclass(frozen=True)
class _Analysis:
    """What is measured at each of several analyses."""

    count: int
    empirical: Mapping[str, EmpiricalNull]
    options: Options
    seed: int

    def measured(self, ours: Signature, theirs: Signature, objection: str) -> dict[str, verdict.Evidence]:
        """Return everything that is measured between two signatures, by path.

        Where there is an objection to the permutation null, independent models have the p-value that decides.
        """
        # As many times more permutations as there are analyses, so that the correction costs no resolution.
        tried = self.count * (self.options.permutations + 1) - 1
        pairs = {path: _Pair.of(path, ours, theirs) for path in self.options.paths}
        permuted = {path: sequential_null(*pair.signatures, tried, self.options.seed) for path, pair in pairs.items()}
        adjusted = holm({path: null.p_value for path, null in permuted.items()})
        evidence = {
            path: pair.evidence(
                comparison := compare_paths(*pair.signatures),
                permutation=permuted[path],
                empirical=self.empirical.get(path),
                p_value=min(1.0, self.count * adjusted[path]),
                analyses=self.count,
                inherited=inherited_units(*pair.signatures, comparison, self.seed),
            )
            for path, pair in pairs.items()
        }
        return {path: _calibrated(each) for path, each in evidence.items()} if objection else evidence


def _calibrated(measured: verdict.Evidence) -> verdict.Evidence:
    """Evidence of a path that independent models decide, if there are any."""
    if measured.empirical is None:
        return measured
    p_value = measured.empirical.p_value(measured.comparison.score)
    return replace(measured, calibrated=True, p_value=p_value)


@dataclass(frozen=True)
class _Pair:
    """Both models along one path, without the layers that write next to nothing."""

    signatures: tuple[PathSignature, PathSignature]
    layers: tuple[tuple[int, ...], tuple[int, ...]]
    left_out: tuple[tuple[int, ...], tuple[int, ...]]

    @classmethod
    def of(cls, path: str, ours: Signature, theirs: Signature) -> _Pair:
        """Return two models along a path."""
        (one, left, silent), (other, right, also) = (_writing(model, path) for model in (ours, theirs))
        return cls((one, other), (left, right), (silent, also))

    def evidence(self, comparison: Comparison, **measured: Any) -> verdict.Evidence:
        """Return what was measured, with the layers that it speaks of."""
        one, other = (
            tuple(number for number, fine in zip(layers, each.finite, strict=True) if not fine)
            for each, layers in zip(self.signatures, self.layers, strict=True)
        )
        return verdict.Evidence(
            comparison, layers=self.layers, left_out=self.left_out, not_finite=(one, other), **measured
        )


def _writing(model: Signature, path: str) -> tuple[PathSignature, tuple[int, ...], tuple[int, ...]]:
    """A model along a path without the layers that write next to nothing, the numbers of its layers, and of those."""
    whole, numbers = model.paths[path], model.numbers(path)
    if whole.writing.all() or not whole.writing.any():
        return whole, numbers, ()
    kept, silent = (tuple(np.array(numbers)[rows].tolist()) for rows in (whole.writing, ~whole.writing))
    return whole.of(np.flatnonzero(whole.writing)), kept, silent
