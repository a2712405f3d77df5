"""Stages: the tests of a claim, in the order in which they are made, until there is a verdict.

A listing is what a server says, so no claim is verified by it. A sample can only decide for RELATED: what it does not
show may still be in the layers. All possible tests together call independent models RELATED with probability alpha at
most, so alpha is divided before any is made, here and nowhere else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hf_lineage.checking import by_units
from hf_lineage.checking.by_units import ModelPair
from hf_lineage.checking.declared import plain_name
from hf_lineage.checking.result import VERDICTS, ModelOrVerdict, error_as_verdict
from hf_lineage.claims.sources import read_claims
from hf_lineage.errors import NothingToCompare, OptionError, printable
from hf_lineage.evidence.criteria import MINIMUM_EFFECT, Criteria
from hf_lineage.evidence.evaluate import as_related, evaluate, mark_unlisted_class, reserve
from hf_lineage.evidence.measure import DOUBTFUL, at_least, enough, same_recipe
from hf_lineage.evidence.p_values import EmpiricalNull, published_null
from hf_lineage.evidence.verdict import Code, Evidence, Verdict
from hf_lineage.hub.repo import hub_name
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.values import FILE, Signature
from hf_lineage.source import differences, rows
from hf_lineage.source.config import SAVED
from hf_lineage.source.locate import locate
from hf_lineage.source.model import FromWeights, OpenedModel, open_model
from hf_lineage.source.options import Options

PERMUTATIONS = 199  # They tell a doubtful p; those that alpha asks for took three times as long as the rest


@dataclass(frozen=True)
class Stage:
    """One test of a claim. Every test that is possible has its part of alpha, whether it is made in the end or not."""

    name: str  # Way in which it compares two models: reports name it if it could not
    possible: Callable[[ModelPair], bool]  # Whether it may be made, by what is known before any weights are read
    run: Callable[[ModelPair, Criteria, Verdict | None], Verdict | None]  # None leaves the verdict as it is
    analyses: Callable[[ModelPair], int] = lambda _pair: 1  # Most p-values, each with an equal part of alpha
    follows: bool = False  # Whether it follows a verdict, which it is given; the others are made until there is one
    interim: bool = False  # Whether its p-values are interim analyses of the products of the paths


def _judge_listing(pair: ModelPair, criteria: Criteria, _before: Verdict | None) -> Verdict | None:
    """Return the verdict where the listing shows the same files, and nobody asks for what only the weights can tell."""
    options, models = pair.options, (pair.base, pair.candidate)
    by_weights = options.budget == "full" or options.recompute or options.run or options.strict or options.nulls
    if by_weights or any(model.local for model in models):
        return None
    base, candidate = map(_read_listing, models)
    if base is None or base != candidate:
        return None
    count = len({content for content, *_ in base[0].values()})
    files = f"{count} file{'s' * (count > 1)} with weights, and the same configuration"
    same = f"the same files, by the Hub's listing: {files}. Their bytes were not read; --budget full reads them"
    return as_related(Code.LISTED, same, criteria)


def _read_listing(model: OpenedModel) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return SHA-256 of its file, place, type and shape of each tensor, and the settings; None where one is unknown."""
    if not isinstance(model, FromWeights):
        return None
    from hf_lineage.hub import client

    checkpoint = model.headers.checkpoint
    stored, content = checkpoint.stored.items(), checkpoint.content
    tensors = {name: (content(tensor.file), tensor.start, tensor.dtype, tensor.shape) for name, tensor in stored}
    known = tensors and all(client.SHA256.fullmatch(digest) for digest, *_ in tensors.values())
    config = model.headers.model_config.config
    return (tensors, {key: value for key, value in config.items() if key not in SAVED}) if known else None


def _clear(outcome: Verdict, read: int, layers: int, criteria: Criteria) -> bool:
    """Return whether the verdict stands, whatever the unread layers hold."""
    measured = outcome.evidence.values()
    if outcome.is_related:
        return outcome.verified and min(_bound_share(one, read, layers) for one in measured) > criteria.min_share
    deciding = [one.decided_by for one in measured]
    if not any(deciding):
        return True
    doubtful = any(null is None or null.p_value <= DOUBTFUL for null in deciding)
    return outcome.code is Code.UNRELATED and read >= enough(layers) and not doubtful


def _bound_share(measured: Evidence, read: int, layers: int) -> float:
    """Return a lower bound on the inherited share of all layers, whatever the unread ones hold (one-sided, 99 %)."""
    inherited = measured.inherited
    if inherited is None or not inherited.layers:
        return 0.0
    shares = inherited.by_layer[list(inherited.layers)]
    bound = at_least(len(shares), read, layers) / layers
    if inherited.by_layer.min() == 1:  # nothing else was drawn: that is likeliest where layers are all or nothing
        return bound
    return bound * max(0.0, float(shares.mean()) - inherited.error)


def _judge_sample(pair: ModelPair, criteria: Criteria, _before: Verdict | None) -> Verdict | None:
    """Return the verdict by a sample of the first layers, if it verifies the claim whatever the unread layers hold."""
    order, (read, *_) = pair.plan
    outcome = evaluate(*pair.sample(order[:read]), criteria)
    return outcome if outcome.verified and _clear(outcome, read, len(order), criteria) else None


def _judge_all_units(pair: ModelPair, criteria: Criteria, _before: Verdict | None) -> Verdict | None:
    """Return UNRELATED if all units of enough layers show nothing on some coordinates; in doubt others are drawn."""
    order, stops = pair.plan
    read = enough(len(order))
    alpha = min(DOUBTFUL * criteria.tests, 0.99)
    doubting = replace(criteria, alpha=alpha, permutations=PERMUTATIONS, at_most=PERMUTATIONS)
    for look in range(3 if read in stops else 0):  # one in 150 pairs of independent models needs more
        outcome = evaluate(*pair.sample(order[:read], all_units=True, look=look), doubting)
        if outcome.code is Code.UNRELATED and _clear(outcome, read, len(order), criteria):
            return outcome
        if outcome.is_related:
            break
    return None


def _judge_layers(pair: ModelPair, criteria: Criteria, _before: Verdict | None) -> Verdict:
    """Return the verdict at the first interim analysis whose result the unread layers cannot change."""
    order, stops = pair.plan
    for read in stops:
        # Of a signature that the user gave all layers count, as their order may be changed. Of a cached one only these
        # are used, as of weights: a report does not depend on what is cached.
        base, candidate = (
            model.signature(None if model.origin == FILE else [at for at in order[:read] if at < model.layers])
            for model in (pair.base, pair.candidate)
        )
        same_recipe(base, candidate)
        outcome = evaluate(base, candidate, criteria)
        if _clear(outcome, read, len(order), criteria):
            break
    return outcome


LISTING = Stage("by the Hub's listing", lambda _pair: True, _judge_listing, lambda _pair: 0)
ON_SOME, PRODUCTS = "by all units on some coordinates", "by the products of their paths"
BY_PATHS = (
    Stage("by a sample", lambda pair: bool(pair.sampled_models), _judge_sample, interim=True),
    # It takes no part of alpha, since it never says RELATED, and a third of the time of whole layers.
    Stage(ON_SOME, lambda pair: bool(pair.sampled_models), _judge_all_units, lambda _pair: 0),
    Stage(PRODUCTS, lambda pair: not pair.incompatible, _judge_layers, lambda pair: len(pair.plan[1]), interim=True),
)
EQUAL = Stage("number by number", by_units.may_compare_numbers, by_units.judge_numbers, follows=True)
UNITS = Stage("unit by unit", by_units.may_compare_units, by_units.judge_units, follows=True)
STAGES: tuple[Stage, ...] = (LISTING, *BY_PATHS, EQUAL, UNITS)  # All tests of two models, in order


def judge_models(base: ModelOrVerdict, candidate: ModelOrVerdict, options: Options, declared: bool = False) -> Verdict:
    """Return the verdict on two models; `declared`: the candidate declares the base. LineageError if one is unread."""
    if isinstance(base, Verdict):
        return base
    if isinstance(candidate, Verdict):
        return candidate
    pair = ModelPair.along_common_paths(base, candidate, options, declared)
    outcome = rows.name_broken(make_tests(pair, STAGES), (base, candidate))
    outcome = reserve(outcome, (f"{model.name}: {why}" for model in (base, candidate) for why in model.reservations))
    return mark_unlisted_class(outcome, (base.read_as, candidate.read_as), differences.doubts(base, candidate))


def make_tests(pair: ModelPair, stages: Sequence[Stage]) -> Verdict:
    """Return the verdict after some stages, and errors after it as reasons; alpha is divided among all."""
    possible = [stage for stage in STAGES if stage.possible(pair)]
    criteria = divide_alpha(pair, possible)
    outcome = Verdict(Code.INCOMPATIBLE, pair.incompatible) if pair.incompatible else None
    for stage in stages:
        if stage not in possible or stage.follows is (outcome is None):
            continue
        try:
            result = stage.run(pair, criteria, outcome)
        except VERDICTS as error:
            if outcome is not None:
                why = f"could not be compared {stage.name}: {error}"
                outcome = replace(outcome, reason=f"{outcome.reason}; {why}" if outcome.reason else why)
            elif isinstance(error, NothingToCompare):
                outcome = error_as_verdict(error)
            else:
                raise
        else:
            outcome = decide(outcome, result, pair.options.alpha) if outcome and result else outcome or result
    return outcome or Verdict(Code.UNSUPPORTED, "no test is possible")


def divide_alpha(pair: ModelPair, possible: Sequence[Stage]) -> Criteria:
    """Return what the verdict depends on besides the models, with the number of all p-values that there may be."""
    interim = [stage.analyses(pair) for stage in possible if stage.interim]
    further = [stage.analyses(pair) for stage in possible if not stage.interim]
    independent = empirical_nulls(pair) if interim and pair.options.nulls else {}
    return pair.options.criteria(analyses=sum(interim), further=sum(further), independent=independent)


def decide(before: Verdict, after: Verdict, alpha: float) -> Verdict:
    """Return the verdict that decides: the later, unless it finds nothing and the first was significant."""
    if after.code is Code.UNRELATED and by_units.is_faint(before, alpha):
        return replace(before, unit_comparison=after.unit_comparison)
    return replace(after, evidence=before.evidence, by_path=before.by_path, equal=after.equal or before.equal)


def empirical_nulls(pair: ModelPair) -> dict[str, EmpiricalNull]:
    """Return the base's scores against every `--null`, by path; OptionError for one that cannot serve."""
    options, base = pair.options, pair.base
    scores: dict[str, dict[str, float]] = {path: {} for path in options.paths}
    sources = []
    for name in options.nulls:
        if published := published_null(name):
            path, recipe = published.path, published.recipe
            plain = options.recipe == replace(RECIPES[recipe], probes=options.recipe.probes)
            if not plain or path not in options.paths:
                raise OptionError(f"--null {name} was measured with recipe={recipe} --paths {path}; use both")
            if base.name.partition("@")[0] != published.reference and hub_name(base.name) is not None:
                raise OptionError(f"--null {name} holds scores of {published.reference}, not of {base.name}")
            scores[path] |= published.scores
            sources.append(published.source)
            continue
        measured = _measure_scores(name, pair)
        for other in next(iter(scores.values())):  # the scores of a copy are equal to the last bit
            if all(scores[path].get(other) == score for path, score in measured.items()):
                raise OptionError(f"--null {name} has the same weights as --null {other}; name every model once")
        for path, score in measured.items():
            scores[path][name] = score
        sources.append(name)
    source = "; ".join(sources)
    return {path: EmpiricalNull(each, source, len(options.paths)) for path, each in scores.items() if each}


def _measure_scores(name: str, pair: ModelPair) -> Mapping[str, float]:
    """Return scores by path; OptionError for the base, the candidate, and a model that declares one or is related."""
    source = locate(name, pair.options.local_hub)
    try:
        other = open_model(source, pair.options)
    except NothingToCompare as error:
        raise OptionError(f"--null {name} cannot serve: {error}") from None
    names, of_base, of_candidate = (
        {plain_name(name) for name in (model.name, *(model.identity or ())[:1])}
        for model in (other, pair.base, pair.candidate)
    )
    instead = "name models that are independent of both"
    declared = None if isinstance(source, Signature) else read_claims(source)
    both = {"base": of_base, "candidate": of_candidate}
    if who := next((who for who, own in both.items() if names & own), ""):
        raise OptionError(f"--null {name} is the {who} itself; {instead}")
    for who, own in both.items():
        for claim in (*declared.claims, *declared.besides) if declared else ():
            if plain_name(claim.base) in own:
                as_base = f"{printable(claim.base, 200)}, the {who}, as its base"
                raise OptionError(f"--null {name} declares {as_base}; {instead}")
    if unlike := replace(pair, candidate=other).unlike_layers:
        raise OptionError(f"--null {name} cannot serve: {unlike}")
    alone = replace(pair.options, nulls=(), budget="full")
    outcome = make_tests(ModelPair.along_common_paths(pair.base, other, alone), BY_PATHS)
    if not outcome.evidence:
        raise OptionError(f"--null {name} cannot serve: {outcome.reason}")
    # At a p-value larger than the least, independent models would be refused by chance, and too few would remain.
    tests = [one.permutation for one in outcome.evidence.values() if one.permutation.effect >= MINIMUM_EFFECT]
    if outcome.is_related or not all(test.permuted.reach_count or test.flipped.reach_count for test in tests):
        raise OptionError(
            f"--null {name} is itself related to {pair.base.name}; a null model must be independent of it"
        )
    return {path: evidence.comparison.score for path, evidence in outcome.evidence.items()}
