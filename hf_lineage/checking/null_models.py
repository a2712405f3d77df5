"""Nulls: scores of the base against named models that are independent of it, and which models cannot serve.

Nobody can prove that a model is independent; one is refused if something shows that it is not, or if it is named twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from hf_lineage.checking.declared import plain_name
from hf_lineage.claims.sources import read_claims
from hf_lineage.errors import NothingToCompare, OptionError, printable
from hf_lineage.evidence.criteria import MINIMUM_EFFECT
from hf_lineage.evidence.p_values import EmpiricalNull, published_null
from hf_lineage.evidence.verdict import Verdict
from hf_lineage.hub.repo import hub_name
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.values import Signature
from hf_lineage.source.locate import locate
from hf_lineage.source.model import OpenedModel, open_model
from hf_lineage.source.options import Options


def empirical_nulls(
    base: OpenedModel, candidate: OpenedModel, options: Options, against: Callable[[OpenedModel], Verdict]
) -> dict[str, EmpiricalNull]:
    """Return the base's scores `against` every `--null`, by path; OptionError for one that cannot serve."""
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
) -> Mapping[str, float]:
    """Return scores by path; OptionError for the base, the candidate, and a model that declares one or is related."""
    source = locate(name, options.local_hub)
    try:
        other = open_model(source, options)
    except NothingToCompare as error:
        raise OptionError(f"--null {name} cannot serve: {error}") from None
    instead = "name models that are independent of both"
    declared = None if isinstance(source, Signature) else read_claims(source)
    own = dict(zip(("base", "candidate"), map(_names, pair), strict=True))
    if who := next((who for who, names in own.items() if names & _names(other)), ""):
        raise OptionError(f"--null {name} is the {who} itself; {instead}")
    for claim in (*declared.claims, *declared.besides) if declared else ():
        if who := next((who for who, names in own.items() if plain_name(claim.base) in names), ""):
            as_base = f"{printable(claim.base, 200)}, the {who}, as its base"
            raise OptionError(f"--null {name} declares {as_base}; {instead}")
    outcome = against(other)
    if not outcome.evidence:
        raise OptionError(f"--null {name} cannot serve: {outcome.reason}")
    # At a p-value larger than the least, independent models would be refused by chance, and too few would remain.
    tests = [one.permutation for one in outcome.evidence.values() if one.permutation.effect >= MINIMUM_EFFECT]
    if outcome.is_related or not all(test.permuted.reach_count or test.flipped.reach_count for test in tests):
        raise OptionError(f"--null {name} is itself related to {pair[0].name}; a null model must be independent of it")
    return {path: evidence.comparison.score for path, evidence in outcome.evidence.items()}


def _names(model: OpenedModel) -> set[str]:
    return {plain_name(name) for name in (model.name, *(model.identity or ())[:1])}
