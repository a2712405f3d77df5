"""Judgement: two opened models -> a verdict, after as many layers as the interim analyses need."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hf_lineage.architecture.registry import ALL, PATHS
from hf_lineage.checking.judge import null_models, sampling
from hf_lineage.checking.judge import unit_stage as frames
from hf_lineage.checking.options import Options
from hf_lineage.checking.results import attempt
from hf_lineage.checking.source import OpenedModel
from hf_lineage.errors import NothingToCompare
from hf_lineage.evidence import Criteria, Evidence, Kind, Verdict, evaluate, reserved
from hf_lineage.evidence.nulls import interim_analyses as interim
from hf_lineage.evidence.paths import same_recipe
from hf_lineage.signature import Signature


def judged(base: OpenedModel | Verdict, candidate: OpenedModel | Verdict, options: Options) -> Verdict:
    """Return the verdict on two models, or of the one that could not be opened; LineageError if one cannot be read."""
    if isinstance(base, Verdict):
        return base
    if isinstance(candidate, Verdict):
        return candidate
    outcome = frames.unit_by_unit(by_paths(base, candidate, options), base, candidate, options)
    return reserved(outcome, (f"{model.name}: {why}" for model in (base, candidate) for why in model.reservations))


def by_paths(base: OpenedModel, candidate: OpenedModel, options: Options) -> Verdict:
    """Return the verdict by the products of the paths, in the coordinates of the residual stream."""
    if base.width != candidate.width or (base.layers != candidate.layers and candidate.in_blocks):
        return Verdict(
            Kind.INCOMPATIBLE,
            f"{base.name} has {base.layers} layers of width {base.width}, "
            f"{candidate.name} has {candidate.layers} of width {candidate.width}",
        )
    if options.paths == ALL:
        common = tuple(path for path in PATHS if path in base.rows and path in candidate.rows)
        if not common:
            own = (f"{model.name} has {', '.join(model.rows)}" for model in (base, candidate))
            return Verdict(Kind.INCOMPATIBLE, f"no path is in both models: {', '.join(own)}")
        options = replace(options, paths=common)
    if unlike := _unlike(base, candidate, options):
        return Verdict(Kind.INCOMPATIBLE, unlike)
    return attempt(lambda: _read(base, candidate, options), NothingToCompare)


def _unlike(base: OpenedModel, candidate: OpenedModel, options: Options) -> str:
    """Why paths cannot be compared, empty if all can: layers of unlike widths, or with `--null` of unlike number.

    If all layers have one width, all layers of the shallower model are paired, and a permutation changes their score
    as it does at equal depth. Empirical nulls need models of equal depth.
    """
    rows = {path: (base.rows.get(path), candidate.rows.get(path)) for path in options.paths}
    return "; ".join(
        f"{base.name} has {path} in {_layers(base_rows)}, {candidate.name} in {_layers(candidate_rows)}; "
        f"leave {what} out"
        for path, (base_rows, candidate_rows) in rows.items()
        if base_rows and candidate_rows and (what := _obstacle(base_rows, candidate_rows, options.nulls))
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


def _read(base: OpenedModel, candidate: OpenedModel, options: Options) -> Verdict:
    """The verdict at the first interim analysis whose result the unread layers cannot change."""
    order, stops = _plan(base, candidate, options)
    sample = sampling.of(base, candidate, options) if len(stops) > 1 else None
    criteria = Criteria(
        options.alpha,
        options.min_share,
        options.accept,
        paths=options.paths,
        permutations=options.permutations,
        seed=options.seed,
        unit_seed=options.order_seed or 0,
        analyses=len(stops) + (sample is not None),
        further=int(frames.possible(base, candidate, options)),
        independent=null_models.empirical_nulls(base, candidate, options, functools.partial(_against, base, options)),
    )
    if sample is not None:
        outcome = evaluate(*sample.signatures(order[: stops[0]]), criteria)
        if outcome.verified and _clear(outcome, stops[0], len(order), criteria):
            return outcome
    for read in stops:
        base_read, candidate_read = (_signature(model, order[:read]) for model in (base, candidate))
        same_recipe(base_read, candidate_read)
        outcome = evaluate(base_read, candidate_read, criteria)
        if _clear(outcome, read, len(order), criteria):
            break
    return outcome


def _against(base: OpenedModel, options: Options, other: OpenedModel) -> Verdict:
    """The verdict on the base and a model that is named as independent of it."""
    unlike = _unlike(base, other, options)
    return (
        Verdict(Kind.INCOMPATIBLE, unlike)
        if unlike
        else by_paths(base, other, replace(options, nulls=(), budget="full"))
    )


def _plan(base: OpenedModel, candidate: OpenedModel, options: Options) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The layers in the order in which they are read, and how many of them have been read at each analysis.

    Layers of unlike widths are all read: a few of them would not represent the rest. Of two signatures that the user
    gave all layers are at hand, and stopping early would save nothing.
    """
    everything = tuple(range(max(base.layers, candidate.layers)))
    plain = dict.fromkeys(everything, candidate.width)
    alike = all(model.rows.get(path) == plain for model in (base, candidate) for path in options.paths)
    at_hand = base.origin.given and candidate.origin.given
    if at_hand or options.budget == "full" or options.nulls or options.recipe.probes is None or not alike:
        return everything, (len(everything),)
    layers = len(everything)
    return interim.reading_order(layers, options.order_seed or 0), interim.analyses(layers, options.min_share)


def _signature(model: OpenedModel, read: tuple[int, ...]) -> Signature:
    """The signature of the layers read so far; of a signature that was given all, as its order may be changed.

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
