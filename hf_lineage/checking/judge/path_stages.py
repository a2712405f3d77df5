"""Path stages: two models are compared by the products of their paths, after as many layers as interim analyses need.

The first analysis may use a sample of a few layers. A sample can only decide for RELATED: what it does not show may
still be in the layers.
"""

from __future__ import annotations

from hf_lineage.checking.judge.stage import ModelPair, Stage
from hf_lineage.checking.source import OpenedModel
from hf_lineage.evidence import Code, Criteria, Evidence, Verdict
from hf_lineage.evidence.judging import evaluate, same_recipe
from hf_lineage.evidence.nulls import interim_analyses as interim
from hf_lineage.signature import Signature
from hf_lineage.signature.sources import FILE


def _signature(model: OpenedModel, read: tuple[int, ...]) -> Signature:
    """Return the signature of the layers read so far, or all layers of a given signature, as its order may be changed.

    Of a cached signature only these layers are used, as of weights: a report does not depend on what is cached.
    """
    return model.signature() if model.origin == FILE else model.signature([n for n in read if n < model.layers])


def _clear(outcome: Verdict, read: int, layers: int, criteria: Criteria) -> bool:
    """Return whether the verdict stands, whatever the unread layers hold."""
    if outcome.is_related:
        bounds = [_bound(measured, read, layers) for measured in outcome.evidence.values()]
        return outcome.verified and min(bounds) > criteria.min_share
    if all(measured.decided_by is None for measured in outcome.evidence.values()):
        return True
    doubtful = any(
        (null := measured.decided_by) is None or null.p_value <= interim.DOUBTFUL
        for measured in outcome.evidence.values()
    )
    return outcome.code is Code.UNRELATED and read >= interim.enough(layers) and not doubtful


def _bound(measured: Evidence, read: int, layers: int) -> float:
    """Return a lower bound on the inherited share of all layers, whatever the unread ones hold (one-sided, 99 %)."""
    inherited = measured.inherited
    if inherited is None or not inherited.layers:
        return 0.0
    shares = inherited.by_layer[list(inherited.layers)]
    if inherited.by_layer.min() == 1:  # nothing else was drawn: that is likeliest where layers are all or nothing
        return interim.at_least(len(shares), read, layers) / layers
    return interim.at_least(len(shares), read, layers) / layers * max(0.0, float(shares.mean()) - inherited.error)


def _judge_sample(pair: ModelPair, criteria: Criteria, _before: Verdict | None) -> Verdict | None:
    """Return the verdict by a sample of the first layers, if it verifies the claim whatever the unread layers hold."""
    (order, stops), sample = pair.plan, pair.sampling
    if sample is None:
        return None
    outcome = evaluate(*sample.signatures(order[: stops[0]]), criteria)
    return outcome if outcome.verified and _clear(outcome, stops[0], len(order), criteria) else None


def _judge_all_units(pair: ModelPair, criteria: Criteria, _before: Verdict | None) -> Verdict | None:
    """Return UNRELATED if all units of as many layers as that needs show nothing on some coordinates.

    The exact test is that of whole layers, which have as many test coordinates. It takes no part of alpha, since it
    never says RELATED.
    """
    (order, stops), sample = pair.plan, pair.sampling
    read = interim.enough(len(order))
    if sample is None or read not in stops:
        return None
    outcome = evaluate(*sample.signatures(order[:read], all_units=True), criteria)
    unrelated = outcome.code is Code.UNRELATED and _clear(outcome, read, len(order), criteria)
    return outcome if unrelated else None


def _judge_layers(pair: ModelPair, criteria: Criteria, _before: Verdict | None) -> Verdict:
    """Return the verdict at the first interim analysis whose result the unread layers cannot change."""
    order, stops = pair.plan
    for read in stops:
        base, candidate = (_signature(model, order[:read]) for model in (pair.base, pair.candidate))
        same_recipe(base, candidate)
        outcome = evaluate(base, candidate, criteria)
        if _clear(outcome, read, len(order), criteria):
            break
    return outcome


def _is_first(_pair: ModelPair, before: Verdict | None) -> bool:
    return before is None


SAMPLE: Stage = Stage(
    name="by a sample",
    possible=lambda pair: pair.sampling is not None,
    analyses=lambda _pair: 1,
    called_for=_is_first,
    run=_judge_sample,
    interim=True,
)
ALL_UNITS: Stage = Stage(
    name="by all units on some coordinates",
    possible=lambda pair: pair.sampling is not None,
    analyses=lambda _pair: 0,
    called_for=_is_first,
    run=_judge_all_units,
)
PATHS: Stage = Stage(
    name="by the products of their paths",
    possible=lambda pair: not pair.incompatible,
    analyses=lambda pair: len(pair.plan[1]),
    called_for=_is_first,
    run=_judge_layers,
    interim=True,
)
