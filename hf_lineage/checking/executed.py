"""Executed evidence: a model runs with and without what it inherits, and where nothing is lost nothing is verified.

Running never makes a verdict better. What counts as inherited is what the verdict counts, in the layers that it read.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_lineage.checking.result import ModelOrVerdict
from hf_lineage.errors import NothingToCompare
from hf_lineage.evidence.evaluate import name_layers, with_run
from hf_lineage.evidence.executed import Ablation, Loss, RunOutcome
from hf_lineage.evidence.inherited import have_counterparts
from hf_lineage.evidence.measure import Pair
from hf_lineage.evidence.verdict import Verdict
from hf_lineage.running.process import Values
from hf_lineage.signature.recipe import random_stream
from hf_lineage.source.model import FromWeights, OpenedModel
from hf_lineage.source.options import Options
from hf_lineage.source.run import RunModel, part_key, run_model

Flags = NDArray[np.bool_]


def judge_executed(base: ModelOrVerdict, candidate: ModelOrVerdict, stored: Verdict, options: Options) -> Verdict:
    """Return the verdict by what two models store, with what the candidate loses without what it inherits."""
    if isinstance(base, Verdict) or isinstance(candidate, Verdict):
        return stored
    seed = options.seed or 0
    if not stored.is_related:
        return replace(stored, executed=RunOutcome(seed=seed))
    try:
        with run_model(candidate, base, options) as running:
            parts = _parts(base, candidate, stored, options)
            ablation = _ablate(running, candidate, parts, seed) if parts else None
    except NothingToCompare as error:
        return with_run(stored, RunOutcome(seed=seed, problem=str(error)))
    return with_run(stored, RunOutcome(running.ran, ablation, seed))


class _Parts(NamedTuple):
    """The parts of some layers of a model along one path."""

    path: str
    layers: tuple[int, ...]
    numbers: tuple[NDArray[np.int64], ...]  # For each layer the parts that were looked up
    inherited: tuple[Flags, ...]


def _ablate(running: RunModel, candidate: OpenedModel, parts: _Parts, seed: int) -> Ablation | None:
    """Return the candidate's loss without inherited parts, on the input where it is least; None if it has none."""
    if not any(map(np.any, parts.inherited)):
        return None
    layers = candidate.reopen().layout.sets(parts.path)  # type: ignore[misc]

    def measure_loss(flags: Sequence[Flags]) -> tuple[Values, dict[str, Loss]]:
        inputs, count = dict[str, list[int]](), 0
        for layer, known, some in zip(parts.layers, parts.numbers, flags, strict=True):
            numbers, start = known[some], 0
            count += len(numbers)
            for number, one in enumerate(layers[layer]):
                of_set = numbers[(numbers >= start) & (numbers < start + one.parts)]
                inputs[part_key(parts.path, layer, number)] = (of_set - start).tolist()
                start += one.parts
        values = running.hold(inputs)
        return values, {kind: Loss(np.array(each["lost"], np.float64), count) for kind, each in values.items()}

    others = [~flags for flags in parts.inherited]
    values, everything = measure_loss(parts.inherited)
    equal, rest = dict[str, Loss](), dict[str, Loss]()
    if count := sum(map(np.count_nonzero, others)):
        equal = everything  # no pass is made twice
        meant, few = np.flatnonzero(np.concatenate(parts.inherited)), np.zeros(sum(map(len, others)), np.bool_)
        if count < len(meant):  # as many of those that are inherited, drawn at random
            order = np.argsort(random_stream(f"ablated {seed}").random_raw(len(meant)), kind="stable")
            few[meant[order[:count]]] = True
            equal = measure_loss(np.split(few, np.cumsum([len(each) for each in others])[:-1]))[1]
        rest = measure_loss(others)[1]
    ablations = [
        Ablation(str(each["unit"]), kind, float(each["says"]), everything[kind], equal.get(kind), rest.get(kind))
        for kind, each in values.items()
    ]
    return min(ablations, key=lambda one: (one.is_used, one.inherited.mean / max(one.says, 1e-30)))


def _parts(base: OpenedModel, candidate: OpenedModel, stored: Verdict, options: Options) -> _Parts | None:
    """Return which parts of the candidate are inherited; None where that is not known."""
    if stored.by_units and stored.unit_comparison:
        if stored.unit_comparison.kept_share < 1:
            return None
        drawn = stored.unit_comparison.inherited.drawn_units
        first = [np.unique(one.units, return_index=True) for one in drawn]
        flags = tuple(one.inherited[at] for one, (_, at) in zip(drawn, first, strict=True))
        return _Parts("mlp", stored.unit_comparison.layers[1], tuple(units for units, _ in first), flags)
    path = next((path for path in ("mlp", "value_output") if path in stored.evidence), None)  # whose parts can be held
    if path is None or stored.evidence[path].inherited is None:
        return None
    evidence, options = stored.evidence[path], replace(options, paths=(path,))
    models = [FromWeights.from_opened(one.reopen(), options, cached=False) for one in (base, candidate) if one.reopen]
    if len(models) < len(evidence.layers):
        raise NothingToCompare("a signature does not say which parts are inherited")
    both = (one.signature(sorted(layers)) for one, layers in zip(models, evidence.layers, strict=True))
    pair = Pair.align(path, *both)
    if pair.layers != evidence.layers:
        raise NothingToCompare(f"{name_layers(evidence.layers[1])} could not be read again")
    (bases, others), partners = (one.units for one in pair.signatures), evidence.inherited.partners  # type: ignore[union-attr]
    numbers = tuple(np.arange(len(one.weight)) for one in others)
    matched = zip(others, partners, numbers, strict=True)
    flags = tuple(have_counterparts(bases[partner], one, every) for one, partner, every in matched)
    return _Parts(path, evidence.layers[1], numbers, flags)
