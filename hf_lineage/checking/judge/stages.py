"""Stages: the tests of a claim, in the order in which they are made, until there is a verdict.

All possible tests together call independent models RELATED with probability alpha at most. So alpha is divided before
any of them is made, here and nowhere else. A test that is added to the list has its part of alpha.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from hf_lineage.checking import relation
from hf_lineage.checking.judge.path_stages import ALL_UNITS, PATHS, SAMPLE
from hf_lineage.checking.judge.stage import ModelPair, Stage
from hf_lineage.checking.judge.unit_stage import EQUAL, UNITS, is_faint
from hf_lineage.checking.options import Options
from hf_lineage.checking.results import attempt
from hf_lineage.checking.source import OpenedModel
from hf_lineage.errors import CheckpointError, NothingToCompare, RepositoryError
from hf_lineage.evidence import Code, Criteria, Verdict
from hf_lineage.evidence.judging import as_read, reserved


def _is_listed(pair: ModelPair, before: Verdict | None) -> bool:
    """Return whether the Hub may know the content of both, and nobody asks for what only the weights can tell."""
    options = pair.options
    asked = options.budget == "full" or options.recompute or options.run or options.strict or options.nulls
    return not (before or asked or pair.base.local or pair.candidate.local)


def _judge_listing(pair: ModelPair, criteria: Criteria, _before: Verdict | None) -> Verdict | None:
    from hf_lineage.checking.judge.listing import judge_listing

    return judge_listing(pair, criteria)


LISTING: Stage = Stage(
    name="by the Hub's listing",
    possible=lambda _pair: True,
    analyses=lambda _pair: 0,
    called_for=_is_listed,
    run=_judge_listing,
)
STAGES: tuple[Stage, ...] = (LISTING, SAMPLE, ALL_UNITS, PATHS, EQUAL, UNITS)
"""All tests of two models, in order."""
BY_PATHS = (SAMPLE, ALL_UNITS, PATHS)


def judge_models(
    base: OpenedModel | Verdict, candidate: OpenedModel | Verdict, options: Options, declared: bool = False
) -> Verdict:
    """Return the verdict on two models, or of the one that could not be opened; LineageError if one cannot be read.

    `declared` says whether the candidate itself declares the base.
    """
    if isinstance(base, Verdict):
        return base
    if isinstance(candidate, Verdict):
        return candidate
    pair = ModelPair.along_common_paths(base, candidate, options, declared)
    outcome = relation.name_broken(make_tests(pair, STAGES), (base, candidate))
    outcome = reserved(outcome, (f"{model.name}: {why}" for model in (base, candidate) for why in model.reservations))
    return as_read(outcome, (base.read_as, candidate.read_as), relation.doubts(base, candidate))


def make_tests(pair: ModelPair, stages: Sequence[Stage]) -> Verdict:
    """Return the verdict after some of the stages; alpha is divided among all that are possible."""
    possible = [stage for stage in STAGES if stage.possible(pair)]
    criteria = divide_alpha(pair, possible)
    outcome = Verdict(Code.INCOMPATIBLE, pair.incompatible) if pair.incompatible else None
    for stage in stages:
        if stage in possible and stage.called_for(pair, outcome):
            outcome = _after(stage, pair, criteria, outcome)
    return outcome or Verdict(Code.UNSUPPORTED, "no test is possible")


def divide_alpha(pair: ModelPair, possible: Sequence[Stage]) -> Criteria:
    """Return what the verdict depends on besides the models, with the number of all p-values that there may be."""
    options, independent = pair.options, {}
    interim = [stage.analyses(pair) for stage in possible if stage.interim]
    further = [stage.analyses(pair) for stage in possible if not stage.interim]
    if interim and options.nulls:
        from hf_lineage.checking.judge.null_models import empirical_nulls

        against = functools.partial(_against_null_model, pair)
        independent = empirical_nulls(pair.base, pair.candidate, options, against)
    return options.criteria(analyses=sum(interim), further=sum(further), independent=independent)


def _against_null_model(pair: ModelPair, other: OpenedModel) -> Verdict:
    """Return the verdict on the base and a model that is named as independent of it."""
    if unlike := replace(pair, candidate=other).unlike_layers:
        return Verdict(Code.INCOMPATIBLE, unlike)
    options = replace(pair.options, nulls=(), budget="full")
    return make_tests(ModelPair.along_common_paths(pair.base, other, options), BY_PATHS)


def _after(stage: Stage, pair: ModelPair, criteria: Criteria, before: Verdict | None) -> Verdict | None:
    """Return the verdict after one more stage; if an earlier one gave a verdict, an error is a part of its reason."""
    if before is None:
        return attempt(lambda: stage.run(pair, criteria, None), NothingToCompare)
    try:
        after = stage.run(pair, criteria, before)
    except (NothingToCompare, CheckpointError, RepositoryError) as error:
        why = f"could not be compared {stage.name}: {error}"
        return replace(before, reason=f"{before.reason}; {why}" if before.reason else why)
    return decide(before, after, pair.options.alpha) if after else before


def decide(before: Verdict, after: Verdict, alpha: float) -> Verdict:
    """Return which of two stages decides: the later one, except that it finds nothing where the first was significant.

    What was measured before is kept.
    """
    if after.code is Code.UNRELATED and is_faint(before, alpha):
        return replace(before, framed=after.framed)
    return replace(after, evidence=before.evidence, by_path=before.by_path, equal=after.equal or before.equal)


def file_notes(base: OpenedModel | Verdict, candidate: OpenedModel | Verdict) -> tuple[str, ...]:
    """Return sentences about files of two models that were not read."""
    if isinstance(candidate, Verdict):
        return ()
    opened = (model for model in (base, candidate) if isinstance(model, OpenedModel))
    return tuple(f"{model.name}: {note}" for model in opened for note in model.notes)
