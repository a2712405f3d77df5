"""Nulls: scores of the base against named models that are independent of it, and which models cannot serve.

Nobody can prove that a model is independent. A model is refused if something shows that it is not: it is the base or
the candidate, or declares one of them; it is more similar to the base than chance allows; or it is named twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from hf_lineage.checking.declared import plain_name
from hf_lineage.claims.sources import read_claims
from hf_lineage.errors import NothingToCompare, OptionError, printable
from hf_lineage.evidence.criteria import MINIMUM_EFFECT
from hf_lineage.evidence.p_values import EmpiricalNull, PublishedNull, published_null
from hf_lineage.evidence.verdict import Verdict
from hf_lineage.hub.repo import RepoRef, hub_name
from hf_lineage.signature.recipe import RECIPES, Spec
from hf_lineage.signature.values import Signature
from hf_lineage.source.locate import locate
from hf_lineage.source.model import OpenedModel, open_model
from hf_lineage.source.options import Options

Scores = Mapping[str, float]
"""Scores by path, or of one path by model."""


def empirical_nulls(
    base: OpenedModel, candidate: OpenedModel, options: Options, against: Callable[[OpenedModel], Verdict]
) -> dict[str, EmpiricalNull]:
    """Return the base's scores against every `--null`, by path; OptionError for one that cannot serve.

    `against` measures the base against one model on all layers, without nulls.
    """
    scores: dict[str, dict[str, float]] = {path: {} for path in options.paths}
    sources = []
    for name in options.nulls:
        published = published_null(name)
        if published is not None:
            by_model = _read_published(base, name, published, options)
            scores[published.path] |= by_model
            sources.append(published.source)
            continue
        measured = _measure_scores(name, (base, candidate), options, against)
        for other in next(iter(scores.values())):  # the scores of a copy are equal to the last bit
            if all(scores[path].get(other) == score for path, score in measured.items()):
                raise OptionError(f"--null {name} has the same weights as --null {other}; name every model once")
        for path, score in measured.items():
            scores[path][name] = score
        sources.append(name)
    source = "; ".join(sources)
    return {path: EmpiricalNull(each, source, len(options.paths)) for path, each in scores.items() if each}


def _measure_scores(
    name: str, pair: tuple[OpenedModel, OpenedModel], options: Options, against: Callable[[OpenedModel], Verdict]
) -> Scores:
    source = locate(name, options.local_hub)
    try:
        other = open_model(source, options)
    except NothingToCompare as error:
        raise OptionError(f"--null {name} cannot serve: {error}") from None
    _refuse_named(name, source, other, pair)
    outcome = against(other)
    if not outcome.evidence:
        raise OptionError(f"--null {name} cannot serve: {outcome.reason}")
    # At a p-value larger than the least, independent models would be refused by chance, and too few would remain.
    tests = [one.permutation for one in outcome.evidence.values() if one.permutation.effect >= MINIMUM_EFFECT]
    if outcome.is_related or not all(test.permuted.reach_count or test.flipped.reach_count for test in tests):
        raise OptionError(f"--null {name} is itself related to {pair[0].name}; a null model must be independent of it")
    return {path: evidence.comparison.score for path, evidence in outcome.evidence.items()}


def _refuse_named(
    name: str, source: RepoRef | Signature, other: OpenedModel, pair: tuple[OpenedModel, OpenedModel]
) -> None:
    """Raise OptionError for the base, the candidate, and a model that declares one of them as its base."""
    names_of = {who: _names(model) for who, model in zip(("base", "candidate"), pair, strict=True)}
    for who, names in names_of.items():
        if names & _names(other):
            raise OptionError(f"--null {name} is the {who} itself; name models that are independent of both")
    declared = None if isinstance(source, Signature) else read_claims(source)
    for claim in (*declared.claims, *declared.besides) if declared else ():
        for who, names in names_of.items():
            if plain_name(claim.base) in names:
                raise OptionError(
                    f"--null {name} declares {printable(claim.base, 200)}, the {who}, as its base; "
                    "name models that are independent of both"
                )


def _names(model: OpenedModel) -> set[str]:
    return {plain_name(name) for name in (model.name, *(model.identity or ())[:1])}


def _read_published(base: OpenedModel, name: str, published: PublishedNull, spec: Spec) -> Scores:
    """Return the scores of a published null by model; OptionError if they are of another base, recipe or path."""
    plain = spec.recipe == replace(RECIPES[published.recipe], probes=spec.recipe.probes)
    if not plain or published.path not in spec.paths:
        raise OptionError(
            f"--null {name} was measured with recipe={published.recipe} --paths {published.path}; use both"
        )
    if base.name.partition("@")[0] != published.reference and hub_name(base.name) is not None:
        raise OptionError(f"--null {name} holds scores of {published.reference}, not of {base.name}")
    return published.scores
