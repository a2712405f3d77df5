"""Equal stage: numbers of two models are compared one by one where other tests did not verify that they are related.

It needs matrices that both store in one format, a floating-point one, and in one shape. A few rows of each are read,
mostly those that were read before: units of what reads the stream, and residual coordinates of what writes into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hf_lineage.architecture.registry import Slot
from hf_lineage.checking.judge.stage import ModelPair, Stage
from hf_lineage.checking.judge.unit_stage import USUAL, is_exchangeable, is_faint
from hf_lineage.checking.relation import WRITERS, matrix, rows_of, weights_of
from hf_lineage.checking.source import FromWeights
from hf_lineage.evidence import Criteria, Kind, Rows, Verdict, compare_numbers
from hf_lineage.evidence.judging import judge_equal
from hf_lineage.signature.extraction import Runs, Sample, indices

FLOATS = frozenset({"BF16", "F16", "F32"})
NOT_VERIFIED = (Kind.UNRELATED, Kind.BASIS_ONLY, Kind.IN_PART)


class _Matrix(NamedTuple):
    """One matrix of a layer that both models store alike, and which rows of it are read."""

    layer: int
    role: str
    slots: tuple[Slot, Slot]
    rows: Runs


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
    models, seed = (base, candidate), pair.options.order_seed or 0
    read = {number for one in before.evidence.values() for number in (*one.layers[1], *one.left_out[1])}
    everything = [one for number in sorted(read) for one in _matrices(models, number, seed)]
    for at, model in enumerate(models):
        checkpoint = model.opened.checkpoint
        stored = [(checkpoint.rows(one.slots[at].tensor), one.rows) for one in everything]
        checkpoint.prefetch_pieces(rows.tensor.rows(run) for rows, runs in stored if rows for run in runs)
    columns = indices(_coordinates(seed, candidate.width))
    rows = [_rows(models, one, columns) for one in everything]
    measured = compare_numbers(rows, criteria.permutations_at_first, pair.options.seed, criteria.tests)
    return measured and judge_equal(measured, before, criteria)


def _coordinates(seed: int, width: int) -> Runs:
    """The residual coordinates that are permuted and flipped: those that a sample of all units reads."""
    return Sample(seed, all_units=True).coordinates_of(width)


def _matrices(models: tuple[FromWeights, FromWeights], layer: int, seed: int) -> Iterator[_Matrix]:
    """The matrices of one layer that read the stream or write into it, and that both store alike."""
    base, candidate = (model.opened for model in models)
    for branch in candidate.layout.branches.keys() & base.layout.branches.keys():
        sets = [model.layout.branches[branch][layer] for model in (base, candidate)]
        seen = set[str]()
        for role, slot in sets[1][0].slots.items() if all(sets) else ():
            other = sets[0][0].slots.get(role)
            if other is None or slot.tensor in seen or not _alike(models, other, slot):
                continue
            seen.add(slot.tensor)
            rows = rows_of(models[1], role, slot, layer, Sample(seed), sampled=False)
            yield _Matrix(layer, role, (other, slot), _coordinates(seed, models[1].width) if role in WRITERS else rows)


def _alike(models: tuple[FromWeights, FromWeights], base: Slot, slot: Slot) -> bool:
    """Whether a slot is one matrix of the stream in both, of one shape and one floating-point format."""
    kinds = []
    for model, one in zip(models, (base, slot), strict=True):
        checkpoint, info = model.opened.checkpoint, model.opened.checkpoint.tensors[one.tensor]
        formats = {checkpoint.stored[part].dtype for part in info.parts}
        plain = len(info.shape) == 2 and not (one.latent or info.itemsize or info.refusal) and formats <= FLOATS
        kinds.append((info.shape, formats, one.roles) if plain else None)
    return kinds[0] == kinds[1] is not None


def _rows(models: tuple[FromWeights, FromWeights], one: _Matrix, columns: np.ndarray) -> Rows:
    base, candidate = (matrix(model, slot, one.rows) for model, slot in zip(models, one.slots, strict=True))
    numbers = models[1].opened.checkpoint.tensors[one.slots[1].tensor].numbers
    if one.role in WRITERS:
        return Rows(one.layer, base.T, candidate.T, slice(None), numbers)
    return Rows(one.layer, base, candidate, columns, numbers)


EQUAL: Stage = Stage(
    name="number by number",
    possible=_possible,
    analyses=lambda _pair: 1,
    called_for=lambda pair, before: (
        before is not None
        and bool(before.evidence)
        and (before.kind in NOT_VERIFIED or is_faint(before, pair.options.alpha))
    ),
    run=_compare,
)
