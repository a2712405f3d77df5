"""Path stages: two models are compared by the products of their paths, after as many layers as interim analyses need.

The first analysis may use a sample of a few layers. A sample can only decide for RELATED: what it does not show may
still be in the layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hf_lineage.architecture.registry import ALL
from hf_lineage.checking.judge import sampling
from hf_lineage.checking.judge.stage import ModelPair, Stage
from hf_lineage.checking.source import OpenedModel
from hf_lineage.evidence import Criteria, Evidence, Kind, Verdict
from hf_lineage.evidence.judging import evaluate
from hf_lineage.evidence.nulls import interim_analyses as interim
from hf_lineage.evidence.paths import same_recipe
from hf_lineage.signature import Signature


def incompatible(pair: ModelPair) -> str:
    """Return why the products of two models cannot be compared, in the coordinates of the residual stream; or empty."""
    base, candidate = pair.base, pair.candidate
    if base.width != candidate.width or (base.layers != candidate.layers and candidate.in_blocks):
        return (
            f"{base.name} has {base.layers} layers of width {base.width}, "
            f"{candidate.name} has {candidate.layers} of width {candidate.width}"
        )
    if pair.options.paths == ALL:
        own = (f"{model.name} has {', '.join(model.rows)}" for model in (base, candidate))
        return f"no path is in both models: {', '.join(own)}"
    return unlike_layers(pair)


def unlike_layers(pair: ModelPair) -> str:
    """Return why paths cannot be compared: layers of unlike widths, or with `--null` of unlike number; or empty.

    If all layers have one width, all layers of the shallower model are paired, and a permutation changes their score
    as it does at equal depth. Empirical nulls need models of equal depth.
    """
    base, candidate = pair.base, pair.candidate
    rows = {path: (base.rows.get(path), candidate.rows.get(path)) for path in pair.options.paths}
    return "; ".join(
        f"{base.name} has {path} in {_layers(base_rows)}, {candidate.name} in {_layers(candidate_rows)}; "
        f"leave {what} out"
        for path, (base_rows, candidate_rows) in rows.items()
        if base_rows and candidate_rows and (what := _obstacle(base_rows, candidate_rows, pair.options.nulls))
    )


def _obstacle(base: Mapping[int, int], candidate: Mapping[int, int], nulls: Sequence[str]) -> str:
    """What the user has to leave out before two models can be compared, empty if they can be."""
    if sorted(base.values()) == sorted(candidate.values()):
        return ""
    if len({*base.values(), *candidate.values()}) > 1:
        return "this path"
    return "--null" if nulls else ""


def _layers(rows: Mapping[int, int]) -> str:
    widths = tuple(rows.values())
    return f"{len(rows)} layers" + (f" of widths {', '.join(map(str, widths))}" if len(set(widths)) > 1 else "")


def _plan(pair: ModelPair) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The layers in the order in which they are read, and how many of them have been read at each analysis.

    Layers of unlike widths are all read: a few of them would not represent the rest. If the user gave two signatures,
    all layers are at hand, and stopping early would save nothing.
    """
    base, candidate, options = pair.base, pair.candidate, pair.options
    everything = tuple(range(max(base.layers, candidate.layers)))
    plain = dict.fromkeys(everything, candidate.width)
    alike = all(model.rows.get(path) == plain for model in (base, candidate) for path in options.paths)
    at_hand = base.origin.given and candidate.origin.given
    if at_hand or options.budget == "full" or options.nulls or options.recipe.probes is None or not alike:
        return everything, (len(everything),)
    layers = len(everything)
    return interim.reading_order(layers, options.order_seed or 0), interim.analyses(layers, options.min_share)


def _signature(model: OpenedModel, read: tuple[int, ...]) -> Signature:
    """The signature of the layers read so far, or all layers of a given signature, as its order may be changed.

    Of a cached signature only these layers are used, as of weights: a report does not depend on what is cached.
    """
    return model.signature() if model.origin.given else model.signature([n for n in read if n < model.layers])


def _clear(outcome: Verdict, read: int, layers: int, criteria: Criteria) -> bool:
    """Whether the verdict stands, whatever the unread layers hold."""
    if outcome.is_related:
        bounds = [_bound(measured, read, layers) for measured in outcome.evidence.values()]
        return outcome.verified and min(bounds) > criteria.min_share
    if all(measured.decided_by is None for measured in outcome.evidence.values()):
        return True
    doubtful = any(
        (null := measured.decided_by) is None or null.p_value <= interim.DOUBTFUL
        for measured in outcome.evidence.values()
    )
    return outcome.kind is Kind.UNRELATED and read >= interim.enough(layers) and not doubtful


def _bound(measured: Evidence, read: int, layers: int) -> float:
    """A lower bound on the inherited share of all layers, whatever the unread ones hold (one-sided, 99 %)."""
    inherited = measured.inherited
    if inherited is None or not inherited.layers:
        return 0.0
    shares = inherited.by_layer[list(inherited.layers)]
    return interim.at_least(len(shares), read, layers) / layers * max(0.0, float(shares.mean()) - inherited.error)


def _sample(pair: ModelPair) -> sampling.Sampling | None:
    """How both are sampled; None where they are compared by whole layers alone, or these are read at once."""
    several = not incompatible(pair) and len(_plan(pair)[1]) > 1
    return sampling.sample_models(pair.base, pair.candidate, pair.options) if several else None


def _judge_sample(pair: ModelPair, criteria: Criteria, _before: Verdict | None) -> Verdict | None:
    """The verdict by a sample of the first layers, if it verifies the claim whatever the unread layers hold."""
    (order, stops), sample = _plan(pair), _sample(pair)
    if sample is None:
        return None
    outcome = evaluate(*sample.signatures(order[: stops[0]]), criteria)
    return outcome if outcome.verified and _clear(outcome, stops[0], len(order), criteria) else None


def _judge_layers(pair: ModelPair, criteria: Criteria, _before: Verdict | None) -> Verdict:
    """The verdict at the first interim analysis whose result the unread layers cannot change."""
    order, stops = _plan(pair)
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
    possible=lambda pair: _sample(pair) is not None,
    analyses=lambda _pair: 1,
    called_for=_is_first,
    run=_judge_sample,
    interim=True,
)
PATHS: Stage = Stage(
    name="by the products of their paths",
    possible=lambda pair: not incompatible(pair),
    analyses=lambda pair: len(_plan(pair)[1]),
    called_for=_is_first,
    run=_judge_layers,
    interim=True,
)
