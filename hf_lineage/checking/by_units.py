"""Unit stage: two models are compared number by number, and unit by unit, where products of their paths show nothing.

Numbers need matrices that both store in one floating-point format and in one shape. A few rows of each are read: any of
what reads the stream, and of what writes into it the residual coordinates that a sample of all units reads.

Units follow where the paths say UNRELATED, and where the two have different widths. They also follow where residual
coordinates are not exchangeable, so that the paths have no test. An honest release needs neither test and costs
nothing more. The p-value of the paths is corrected for each whenever it may follow.
"""

from __future__ import annotations

from collections.abc import Collection

from hf_lineage.architecture.paths import NAMED
from hf_lineage.checking.stage import ModelPair, Stage
from hf_lineage.errors import NothingToCompare
from hf_lineage.evidence import evaluate
from hf_lineage.evidence import measure as interim
from hf_lineage.evidence.criteria import Criteria
from hf_lineage.evidence.equal_numbers import Rows, compare_numbers
from hf_lineage.evidence.inherited import HALF
from hf_lineage.evidence.permutation import PermutationNull
from hf_lineage.evidence.verdict import Code, Verdict
from hf_lineage.signature.recipe import RECIPES
from hf_lineage.signature.sample import Sample, indices
from hf_lineage.signature.unit_rows import HEADS, PATH
from hf_lineage.source.headers import Opened
from hf_lineage.source.model import OpenedModel
from hf_lineage.source.rows import rows_beside, weights_of

USUAL = next(iter(RECIPES.values())).name
"""Other recipes reproduce what was measured with them, and nothing else."""
FEWER = 2
"""So many times fewer layers are read at first where the candidate declares the base. A tool may then have rotated the
stream as a whole, but nobody rotates a part of a model to hide what is declared."""
NOT_VERIFIED = (Code.UNRELATED, Code.EMBEDDING, Code.PART)
"""Verdicts that equal numbers may change."""


def _possible(pair: ModelPair) -> bool:
    """Return whether two models may be compared unit by unit, by what is known before any weights are read."""
    models, options = (pair.base, pair.candidate), pair.options
    paths = options.paths in NAMED or PATH in options.paths
    usual = options.recipe.name == USUAL and options.recipe.probes is not None and not options.nulls
    return paths and usual and all(model.factorization is not None and PATH in model.rows for model in models)


def _coordinates(pair: ModelPair, first: Verdict | None) -> str | None:
    """Return the coordinates that are tried first; None if the paths decide, or a null that the user named refuses."""
    if first is None or first.verified:
        return None
    from hf_lineage.evidence import unit_comparison

    if first.code is Code.INCOMPATIBLE and pair.base.width != pair.candidate.width:
        return unit_comparison.TOKEN
    if any(not isinstance(null, PermutationNull) for one in first.evidence.values() for null in one.nulls):
        return None
    if first.code is Code.INCONCLUSIVE and first.evidence and not is_exchangeable(pair):
        return unit_comparison.RESIDUAL if all(one.decided_by is None for one in first.evidence.values()) else None
    return unit_comparison.TOKEN if first.code is Code.UNRELATED or is_faint(first, pair.options.alpha) else None


def is_exchangeable(pair: ModelPair) -> bool:
    """Return whether both architectures treat all residual coordinates alike."""
    models = pair.base, pair.candidate
    return all(model.factorization is None or model.factorization.exchangeable for model in models)


def is_faint(first: Verdict, alpha: float) -> bool:
    """Return whether equal numbers or paths are only just significant, as paths are after some signs were changed."""
    if first.equal is not None and first.code is Code.INCONCLUSIVE:
        return True
    return first.code is Code.INCONCLUSIVE and any(
        one.decided_by is not None and one.p_value <= alpha and not any(one.not_finite)
        for one in first.evidence.values()
    )


def _compare(pair: ModelPair, criteria: Criteria, first: Verdict | None) -> Verdict | None:
    """Return the verdict on what both models show unit by unit; raise NothingToCompare where they cannot be seen so."""
    coordinates = _coordinates(pair, first)
    if first is None or coordinates is None:
        return None
    from hf_lineage.checking.units import compare_by_units
    from hf_lineage.evidence import unit_comparison
    from hf_lineage.signature.units import known_weights

    options = pair.options
    test = unit_comparison.Test(criteria.permutations_at_first(), criteria.seed, criteria.tests)
    base, candidate = _opened(pair.base), _opened(pair.candidate)
    known = (known_weights(pair.base.at_hand, base.layout), known_weights(pair.candidate.at_hand, candidate.layout))
    heads = options.paths in NAMED or HEADS in options.paths
    analyses, fit = _analyses(first, pair), _fits_coordinates(pair)
    framed = compare_by_units(base, candidate, analyses, coordinates, test, fit, known, heads)
    return unit_comparison.judge_units(framed, criteria)


def _fits_coordinates(pair: ModelPair) -> bool:
    """Return whether coordinates are fitted to hidden units where tokens show little.

    Fitting takes most of the time of an UNRELATED. It detects copies with a rotated stream and another embedding. A
    publisher who declares a base has no reason to hide that the weights come from it.
    """
    return not pair.declared or pair.options.budget == "full"


def _opened(model: OpenedModel) -> Opened:
    """Return a model by its weights; NothingToCompare if they are not read."""
    if model.reopen is None:
        raise NothingToCompare(f"{model.name}: its weights are not read")
    return model.reopen()


def _analyses(first: Verdict, pair: ModelPair) -> tuple[Collection[int], ...]:
    """Return the layers that are read: those that were read for the paths, else as many as UNRELATED needs.

    Before that, as many as show whether more than half of all layers are inherited; if they show nothing, it ends
    there. Models of few layers and of unlike depth are read as a whole, since a layer may have its partner anywhere.
    """
    base, candidate, options = pair.base, pair.candidate, pair.options
    depth = max(base.layers, candidate.layers)
    if options.budget == "full":
        return (range(depth),)
    if base.layers != candidate.layers or depth < interim.FEWEST_LAYERS:
        return (range(depth),) * 2
    order = interim.reading_order(depth, options.seed or 0)
    read = {number for one in first.evidence.values() for number in one.layers[1]}
    layers = [number for number in order if number in read] or order[: interim.enough(depth)]
    common = [number for number in layers if number in base.rows[PATH] and number in candidate.rows[PATH]]
    few = common[: interim.fewest(depth, HALF) // (FEWER if pair.declared else 1)]
    return (few, layers) if few else (layers,)


UNITS = Stage("unit by unit", _possible, _compare, follows=True)


def _numbers_possible(pair: ModelPair) -> bool:
    """Return whether numbers may be compared one by one, by what is known before any weights are read."""
    models, options = (pair.base, pair.candidate), pair.options
    usual = options.recipe.name == USUAL and not options.nulls and not pair.incompatible
    read = all(model.factorization is not None and model.reopen is not None for model in models)
    return usual and read and pair.base.layers == pair.candidate.layers and is_exchangeable(pair)


def _may_change(before: Verdict, alpha: float) -> bool:
    """Return whether equal numbers may change a verdict by paths."""
    finite = not any(any(one.not_finite) for one in before.evidence.values())
    return bool(before.evidence) and finite and (before.code in NOT_VERIFIED or is_faint(before, alpha))


def _compare_numbers(pair: ModelPair, criteria: Criteria, before: Verdict | None) -> Verdict | None:
    """Return the verdict on what both have in common, bit for bit; None where that shows nothing."""
    if before is None or not _may_change(before, pair.options.alpha):
        return None
    base, candidate = (weights_of(model, pair.options) for model in (pair.base, pair.candidate))
    if base is None or candidate is None:
        return None
    seed, widths = pair.options.seed or 0, candidate.opened.layout.widths
    compared = {number for one in before.evidence.values() for number in one.layers[1]}
    layers = {number for number in compared if widths[number] == candidate.width}  # the coordinates of one stream
    coordinates = Sample(seed, all_units=True).coordinates_of(candidate.width)
    tested = indices(coordinates)
    rows = [
        Rows(one.layer, one.numbers, *(side.T if one.writes else side[:, tested] for side in (one.base, one.candidate)))
        for one in rows_beside(base, candidate, seed, layers, coordinates)
        if one.digits[0] == one.digits[1]
    ]
    measured = compare_numbers(rows, criteria.permutations_at_first(), criteria.seed, criteria.tests)
    return evaluate.judge_equal(measured, before, criteria) if measured else None


EQUAL = Stage("number by number", _numbers_possible, _compare_numbers, follows=True)
