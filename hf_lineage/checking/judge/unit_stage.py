"""Frames: two models are compared unit by unit where the products of their paths show nothing.

That is so where the paths say UNRELATED, where the two have unlike widths, and where residual coordinates are not
exchangeable, so that the paths have no test. An honest release needs none of it and costs nothing more; the p-value of
the paths is corrected for this further test wherever there may be one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from hf_lineage.architecture.registry import ALL
from hf_lineage.checking.judge.units import shown
from hf_lineage.checking.options import Options
from hf_lineage.checking.results import attempt
from hf_lineage.checking.source import Opened, OpenedModel
from hf_lineage.errors import CheckpointError, NothingToCompare, RepositoryError
from hf_lineage.evidence import Criteria, Kind, Verdict
from hf_lineage.evidence.nulls import PermutationNull
from hf_lineage.evidence.nulls import interim_analyses as interim
from hf_lineage.evidence.units import RESIDUAL, TOKEN, Framed, Test, judge_framed
from hf_lineage.signature import RECIPES
from hf_lineage.signature.units import PATH

USUAL = next(iter(RECIPES.values())).name
"""Other recipes reproduce what was measured with them, and nothing else."""


def possible(base: OpenedModel, candidate: OpenedModel, options: Options) -> bool:
    """Return whether two models may be compared unit by unit, by what is known before any weights are read."""
    paths = options.paths == ALL or PATH in options.paths
    usual = options.recipe.name == USUAL and options.recipe.probes is not None and not options.nulls
    models = all(model.factorization is not None and PATH in model.rows for model in (base, candidate))
    return paths and usual and models


def _exchangeable(base: OpenedModel, candidate: OpenedModel) -> bool:
    return all(model.factorization is None or model.factorization.exchangeable for model in (base, candidate))


def unit_by_unit(first: Verdict, base: OpenedModel, candidate: OpenedModel, options: Options) -> Verdict:
    """Return the verdict after a comparison unit by unit, if one is called for; the first where it shows no more."""
    frame = _frame(first, base, candidate, options)
    if frame is None or not possible(base, candidate, options):
        return first
    criteria = Criteria(
        options.alpha, options.min_share, options.accept, permutations=options.permutations, seed=options.seed,
        unit_seed=options.order_seed or 0, analyses=max((one.analyses for one in first.evidence.values()), default=1),
        further=int(bool(first.evidence)),
    )  # fmt: skip
    framed = attempt(
        lambda: _framed(first, base, candidate, options, frame, criteria),
        NothingToCompare, CheckpointError, RepositoryError,
    )  # fmt: skip
    if isinstance(framed, Verdict):
        seen = "could not be compared unit by unit"
        reason = f"{first.reason}; {seen}: {framed.reason}" if first.reason else f"{seen}: {framed.reason}"
        return replace(first, reason=reason)
    outcome = judge_framed(framed, criteria, options.evidence == "any")
    if outcome.kind is Kind.UNRELATED and _faint(first, options):
        return replace(first, framed=framed)
    if outcome.kind is Kind.UNRELATED and first.kind in (Kind.INCONCLUSIVE, Kind.INCOMPATIBLE):
        return Verdict(Kind.UNRELATED, evidence=first.evidence, by_path=first.by_path, framed=framed)
    if outcome.kind is Kind.UNRELATED:
        return replace(first, framed=framed)
    return replace(outcome, evidence=first.evidence, by_path=first.by_path, framed=framed)


def _frame(first: Verdict, base: OpenedModel, candidate: OpenedModel, options: Options) -> str | None:
    """The frame of a comparison unit by unit; None if the paths decide, or a null that the user named refuses."""
    if first.kind is Kind.INCOMPATIBLE and base.width != candidate.width:
        return TOKEN
    if any(not isinstance(null, PermutationNull) for one in first.evidence.values() for null in one.nulls):
        return None
    if first.kind is Kind.INCONCLUSIVE and first.evidence and not _exchangeable(base, candidate):
        return RESIDUAL if all(one.decided_by is None for one in first.evidence.values()) else None
    return TOKEN if first.kind is Kind.UNRELATED or _faint(first, options) else None


def _faint(first: Verdict, options: Options) -> bool:
    """Whether the paths are significant and no more: signs of coordinates that were changed leave as much."""
    return first.kind is Kind.INCONCLUSIVE and any(
        one.decided_by is not None and one.p_value <= options.alpha and not any(one.not_finite)
        for one in first.evidence.values()
    )


def _framed(
    first: Verdict, base: OpenedModel, candidate: OpenedModel, options: Options, frame: str, criteria: Criteria
) -> Framed:
    """What both models show unit by unit; raise NothingToCompare where they cannot be seen so."""
    test = Test(criteria.permutations_at_first, options.seed, options.order_seed or 0, criteria.tests)
    return shown(_opened(base), _opened(candidate), _layers(first, base, candidate, options), frame, test)


def _opened(model: OpenedModel) -> Opened:
    """A model by its weights; NothingToCompare if they are not read."""
    if model.reopen is None:
        raise NothingToCompare(f"{model.name}: its weights are not read")
    return model.reopen()


def _layers(first: Verdict, base: OpenedModel, candidate: OpenedModel, options: Options) -> Collection[int]:
    """The layers that are read: those that were read for the paths, else as many as UNRELATED needs.

    Models of unlike depth are read as a whole, since a layer may have its partner anywhere.
    """
    everything = range(max(base.layers, candidate.layers))
    if options.budget == "full" or base.layers != candidate.layers or len(everything) < interim.FEWEST_LAYERS:
        return everything
    read = {number for one in first.evidence.values() for number in (*one.layers[1], *one.left_out[1])}
    return read or interim.reading_order(len(everything), options.order_seed or 0)[: interim.enough(len(everything))]
