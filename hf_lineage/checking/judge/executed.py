"""Executed evidence: both models run, are judged by what their parts write then, and what is common is taken out.

What is measured takes the place of what weights alone let expect. Tests, caps and shares stay as they are: what a part
writes depends on its own model alone, and not on the order of its coordinates, so that the null stays exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checking.judge.stages import judge_models
from hf_lineage.checking.options import Options
from hf_lineage.checking.source import OpenedModel, RunModel, part_key, run_model
from hf_lineage.errors import NothingToCompare
from hf_lineage.evidence import Ablation, Executed, Loss, Verdict, amount
from hf_lineage.evidence.judging import Pair, named, reserved
from hf_lineage.evidence.units import have_counterparts
from hf_lineage.running.executed import NotJudged
from hf_lineage.signature import random_stream

ABLATED = ("mlp", "value_output")
"""Paths whose parts can be held at their mean, the first that a verdict has."""
Flags = NDArray[np.bool_]


def judge_executed(
    base: OpenedModel | Verdict, candidate: OpenedModel | Verdict, stored: Verdict, options: Options, declared: bool
) -> Verdict:
    """Return the verdict on two models that ran; where they cannot, the one by what they store, with the reason."""
    if isinstance(base, Verdict) or isinstance(candidate, Verdict):
        return stored
    seed = options.order_seed or 0
    try:
        with ExitStack() as stack:
            with run_model(base, options) as first:
                pass  # what the base wrote is known, and its process need not wait
            second = stack.enter_context(run_model(candidate, options, base))
            outcome = judge_models(first.opened, second.opened, options, declared)
            ablation = _ablated(first, second, outcome, seed)
    except NothingToCompare as error:
        # Nothing is verified by what the class does not load; where nothing is common, there is nothing to doubt.
        doubted = isinstance(error, NotJudged) and stored.is_related
        outcome = reserved(stored, (str(error),)) if doubted else stored
        return replace(outcome, executed=Executed(seed=seed, problem=str(error)))
    ran = Executed((first.ran, second.ran), ablation, seed)
    if outcome.verified and ablation is not None and not ablation.is_used:
        outcome = reserved(outcome, (_unused(candidate.name, ablation),))
    if outcome.verified and not stored.verified and not (ablation and ablation.is_alone):
        # What else is stored works as well, so that running gives no better word than storage does.
        outcome = stored
    return replace(outcome, executed=ran)


def _unused(name: str, ablation: Ablation) -> str:
    if ablation.is_silent:
        return f"{name} says nearly the same to every input, so that nothing it has in common with the base is used"
    others = f", and {amount(ablation.unit, ablation.others_mean)} without other parts" if ablation.others else ""
    return (
        f"{name} stores what it has in common with the base, and does not use it: without it, the model loses "
        f"{ablation.amount}{others}"
    )


@dataclass(frozen=True)
class _Parts:
    """The parts of some layers of a model along one path."""

    path: str
    layers: tuple[int, ...]
    numbers: tuple[NDArray[np.int64], ...]
    """For each layer the parts that were looked up."""
    weights: tuple[NDArray[np.float64], ...]
    """What each of them writes, as a share of its layer."""
    inherited: tuple[Flags, ...]

    def chosen(self, flags: Sequence[Flags]) -> tuple[list[NDArray[np.int64]], int, float]:
        """Return by layer the numbers of some parts, how many they are, and what they write of all."""
        total = sum(float(each.sum()) for each in self.weights) or 1.0
        weight = sum(float(each[some].sum()) for each, some in zip(self.weights, flags, strict=True))
        chosen = [numbers[some] for numbers, some in zip(self.numbers, flags, strict=True)]
        return chosen, sum(map(len, chosen)), weight / total


def _ablated(base: RunModel, candidate: RunModel, outcome: Verdict, seed: int) -> Ablation | None:
    """What the candidate loses without what it inherits; None where nothing is, or it cannot be told part by part."""
    parts = _parts(base, candidate, outcome) if outcome.is_related else None
    if parts is None or not any(map(np.any, parts.inherited)):
        return None
    layers = candidate.opened.reopen().layout.sets(parts.path)  # type: ignore[misc]

    def lost(flags: Sequence[Flags]) -> tuple[Mapping[str, Any], Loss]:
        chosen, count, weight = parts.chosen(flags)
        held: dict[str, list[int]] = {}
        for layer, numbers in zip(parts.layers, chosen, strict=True):
            held |= _by_set(parts.path, layer, [_count(one) for one in layers[layer]], numbers)
        values, moved = candidate.hold(held)
        return values, Loss(moved, count, weight)

    others = [~flags for flags in parts.inherited]
    values, everything = lost(parts.inherited)
    about = (str(values["unit"]), str(values["kind"]), float(values["says"]))
    if not any(map(np.any, others)):
        return Ablation(*about, everything)
    equal = _lighter(parts, parts.inherited, parts.chosen(others)[2], seed)
    return Ablation(*about, everything, lost(equal)[1], lost(others)[1])


def _count(layer_set: object) -> int:
    return len(layer_set.measured)  # type: ignore[attr-defined]


def _by_set(path: str, layer: int, sizes: Sequence[int], numbers: NDArray[np.int64]) -> dict[str, list[int]]:
    """By the name of each set of a layer which of its parts are meant, given their numbers in the layer."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return {
        part_key(path, layer, number): (numbers[(numbers >= start) & (numbers < stop)] - start).tolist()
        for number, (start, stop) in enumerate(pairwise(starts.tolist()))
    }


def _lighter(parts: _Parts, flags: Sequence[Flags], most: float, seed: int) -> list[Flags]:
    """Some of the parts that are meant, drawn at random until they write as much as that; all if they write less."""
    total = sum(float(each.sum()) for each in parts.weights) or 1.0
    places = [(row, place) for row, some in enumerate(flags) for place in np.flatnonzero(some).tolist()]
    order = np.argsort(random_stream(f"ablated {seed}").random_raw(len(places)), kind="stable")
    few, weight = [np.zeros_like(some) for some in flags], 0.0
    for row, place in (places[number] for number in order.tolist()):
        if weight >= most:
            break
        few[row][place] = True
        weight += float(parts.weights[row][place]) / total
    return few


def _parts(base: RunModel, candidate: RunModel, outcome: Verdict) -> _Parts | None:
    if outcome.by_units and outcome.framed:
        framed = outcome.framed
        if framed.kept < 1:
            return None
        drawn = framed.inherited.drawn
        first = [np.unique(one.units, return_index=True) for one in drawn]
        return _Parts(
            "mlp",
            framed.layers[1],
            tuple(units for units, _ in first),
            tuple(_rescaled(one.counts[at]) for one, (_, at) in zip(drawn, first, strict=True)),
            tuple(one.inherited[at] for one, (_, at) in zip(drawn, first, strict=True)),
        )
    path = next((path for path in ABLATED if path in outcome.evidence), None)
    if path is None or outcome.evidence[path].inherited is None:
        return None
    evidence = outcome.evidence[path]
    read = [sorted(layers) for layers in evidence.layers]
    both = (model.opened.signature(layers) for model, layers in zip((base, candidate), read, strict=True))
    pair = Pair.align(path, *both)
    if pair.layers != evidence.layers:
        raise NothingToCompare(f"{named(evidence.layers[1])} could not be read again")
    (bases, others), partners = (one.units for one in pair.signatures), evidence.inherited.partners  # type: ignore[union-attr]
    everything = [np.arange(len(one.weight)) for one in others]
    flags = [
        have_counterparts(bases[partner], one, numbers)
        for one, partner, numbers in zip(others, partners, everything, strict=True)
    ]
    weights = tuple(one.weight.astype(np.float64) for one in others)
    return _Parts(path, evidence.layers[1], tuple(everything), weights, tuple(flags))


def _rescaled(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    total = float(counts.sum())
    return counts / total if total > 0 else counts
