"""Equal stage: numbers of two models are compared one by one where other tests did not verify that they are related.

It needs matrices that both store in one floating-point format and in one shape. A few rows of each are read: any of
what reads the stream, and of what writes into it the residual coordinates that a sample of all units reads.
"""

from __future__ import annotations

from hf_lineage.checking.judge.stage import ModelPair, Stage
from hf_lineage.checking.judge.unit_stage import USUAL, is_exchangeable, is_faint
from hf_lineage.checking.relation import rows_beside, weights_of
from hf_lineage.evidence import Criteria, Kind, Rows, Verdict, compare_numbers
from hf_lineage.evidence.judging import judge_equal
from hf_lineage.signature.extraction import Sample, indices

NOT_VERIFIED = (Kind.UNRELATED, Kind.BASIS_ONLY, Kind.IN_PART)


def _possible(pair: ModelPair) -> bool:
    """Whether numbers may be compared one by one, by what is known before any weights are read."""
    models, options = (pair.base, pair.candidate), pair.options
    usual = options.recipe.name == USUAL and not options.nulls and not pair.incompatible
    read = all(model.factorization is not None and model.reopen is not None for model in models)
    return usual and read and pair.base.layers == pair.candidate.layers and is_exchangeable(pair)


def _compare(pair: ModelPair, criteria: Criteria, before: Verdict | None) -> Verdict | None:
    """The verdict on what both have in common, bit for bit; None where that shows nothing."""
    base, candidate = (weights_of(model, pair.options) for model in (pair.base, pair.candidate))
    if before is None or base is None or candidate is None:
        return None
    seed, widths = pair.options.order_seed or 0, candidate.opened.layout.widths
    compared = {number for one in before.evidence.values() for number in one.layers[1]}
    layers = {number for number in compared if widths[number] == candidate.width}  # the coordinates of one stream
    coordinates = Sample(seed, all_units=True).coordinates_of(candidate.width)
    tested = indices(coordinates)
    rows = [
        Rows(one.layer, one.numbers, *(side.T if one.writes else side[:, tested] for side in (one.base, one.candidate)))
        for one in rows_beside(base, candidate, seed, layers, coordinates)
        if one.digits[0] == one.digits[1]
    ]
    measured = compare_numbers(rows, criteria.permutations_at_first, pair.options.seed, criteria.tests)
    return measured and judge_equal(measured, before, criteria)


EQUAL: Stage = Stage(
    name="number by number",
    possible=_possible,
    analyses=lambda _pair: 1,
    called_for=lambda pair, before: bool(
        before and before.evidence and (before.kind in NOT_VERIFIED or is_faint(before, pair.options.alpha))
    ),
    run=_compare,
)
