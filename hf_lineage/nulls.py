"""Nulls: scores of the base against named models that are independent of it, and which models cannot serve.

Nobody can prove that a model is independent. What shows that it is not is refused: being the base or the candidate,
declaring one of them, lying nearer to the base than chance does, being named twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from hf_lineage.calibrate import EmpiricalNull, PublishedNull, published_null
from hf_lineage.claims import read_claims
from hf_lineage.errors import NothingToCompare, OptionError, printable
from hf_lineage.evaluate import MINIMUM_EFFECT
from hf_lineage.naming import locate_base
from hf_lineage.options import Options
from hf_lineage.recipe import RECIPES
from hf_lineage.repo import RepoRef, hub_name
from hf_lineage.sequence import Stop
from hf_lineage.signature import Signature
from hf_lineage.subject import Subject, open_subject
from hf_lineage.verdict import Related, Verdict

Scores = Mapping[str, float]
"""By path."""


def empirical_nulls(
    base: Subject, candidate: Subject, options: Options, against: Callable[[Subject], Verdict]
) -> dict[str, EmpiricalNull]:
    """Return the base's scores against every `--null`, by path; OptionError for one that cannot serve.

    `against` measures the base against one model on all layers, without nulls.
    """
    scores: dict[str, dict[str, float]] = {path: {} for path in options.paths}
    sources = []
    for name in options.nulls:
        published = published_null(name)
        if published is None:
            _add(scores, name, _measured(name, (base, candidate), options, against))
            sources.append(name)
        else:
            found = _published(base, name, published, options)
            scores[published.path] |= found
            sources.append(published.source)
    return {
        path: EmpiricalNull(by_model, "; ".join(sources), len(options.paths))
        for path, by_model in scores.items()
        if by_model
    }


def _add(scores: Mapping[str, dict[str, float]], name: str, measured: Scores) -> None:
    """Copies of one model would make any score look rare: equal weights give equal scores to the last bit."""
    for other in next(iter(scores.values())):
        if all(scores[path].get(other) == score for path, score in measured.items()):
            raise OptionError(f"--null {name} holds the weights of --null {other}; name every model once")
    for path, score in measured.items():
        scores[path][name] = score


def _measured(
    name: str, pair: tuple[Subject, Subject], options: Options, against: Callable[[Subject], Verdict]
) -> Scores:
    source = locate_base(name, options.local_hub)
    try:
        other = open_subject(source, options)
    except NothingToCompare as error:
        raise OptionError(f"--null {name} cannot serve: {error}") from None
    _refuse_named(name, source, other, pair)
    outcome = against(other)
    if not outcome.evidence:
        raise OptionError(f"--null {name} cannot serve: {outcome.reason}")
    if isinstance(outcome, Related) or _near(outcome):
        raise OptionError(f"--null {name} is itself related to {pair[0].name}; a null model must be independent of it")
    return {path: found.comparison.score for path, found in outcome.evidence.items()}


def _refuse_named(name: str, source: RepoRef | Signature, other: Subject, pair: tuple[Subject, Subject]) -> None:
    """Raise OptionError for the base, the candidate, and a model that declares one of them as its base."""
    named = {who: _names(model) for who, model in zip(("base", "candidate"), pair, strict=True)}
    for who, names in named.items():
        if names & _names(other):
            raise OptionError(f"--null {name} is the {who} itself; name models that are independent of both")
    declared = () if isinstance(source, Signature) else read_claims(source).claims
    for claim in declared:
        for who, names in named.items():
            if _plain(claim.base) in names:
                raise OptionError(
                    f"--null {name} declares {printable(claim.base, 200)}, the {who}, as its base; "
                    "name models that are independent of both"
                )


def _names(model: Subject) -> set[str]:
    """What a model is called, whatever its revision."""
    return {_plain(name) for name in (model.name, *(model.identity or ())[:1])}


def _plain(name: str) -> str:
    return name.partition("@")[0].casefold()


def _near(outcome: Verdict) -> bool:
    """Whether a path would be significant if the null held, at the least p-value that there is, and by enough.

    At a larger p-value independent models would be refused for their luck, and those that are left would be too few.
    """
    return any(
        found.permutation.stopped is Stop.UNREACHED and found.permutation.effect >= MINIMUM_EFFECT
        for found in outcome.evidence.values()
    )


def _published(base: Subject, name: str, published: PublishedNull, options: Options) -> Scores:
    """The scores of a published null by model, if they are of this base as it is seen now."""
    plain = options.recipe == replace(RECIPES[published.recipe], probes=options.recipe.probes)
    if not plain or published.path not in options.paths:
        raise OptionError(
            f"--null {name} was measured with --recipe {published.recipe} --paths {published.path}; use both"
        )
    if base.name.partition("@")[0] != published.reference and hub_name(base.name) is not None:
        raise OptionError(f"--null {name} holds scores of {published.reference}, not of {base.name}")
    return published.scores
