"""Derivation: rows of matrices, of layers that the verdict read, that say how one model was made from the other."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.linalg import norm

from hf_lineage.architecture.layers import LayerSet
from hf_lineage.architecture.paths import PATHS
from hf_lineage.architecture.schema import MLP_READERS
from hf_lineage.checking.result import ModelOrVerdict
from hf_lineage.checkpoint.rounding import Matrix
from hf_lineage.evidence.change import Change, EqualShare, measure_change
from hf_lineage.evidence.relation import AlignedRows, Derivation, align
from hf_lineage.evidence.verdict import Code, Evidence, Verdict
from hf_lineage.signature.factors import gain
from hf_lineage.signature.sample import Sample
from hf_lineage.source.model import FromWeights
from hf_lineage.source.rows import UNSEEN, WRITERS, bits_of, digits_of, matrix, rows_beside, rows_of

NEARER = 0.5  # Largest distance with the gains of a norm, over that without them, of a matrix that took the gains over
_MatrixPair = tuple[Change, AlignedRows, float]  # With the bits a weight in the candidate; 0 for floating point


class _Pair(NamedTuple):
    """One matrix set of both models."""

    base: FromWeights
    candidate: FromWeights
    sets: tuple[LayerSet, LayerSet]
    layer: int  # The number of the candidate's layer
    sampled: bool  # Whether no more than a sample of the layer is on this disk


def measure_derivation(
    base: ModelOrVerdict, candidate: ModelOrVerdict, verdict: Verdict, seed: int
) -> Derivation | None:
    """Return how a candidate was made from a related base of which no weight is quantized; None if unknown."""
    matched = verdict.code in (Code.INHERITED, Code.PART, Code.CHANGED)
    if not matched or not isinstance(base, FromWeights) or not isinstance(candidate, FromWeights):
        return None
    agreeing = [path for path, single in verdict.by_path.items() if single.label == verdict.label]
    score = {path: measured.comparison.score for path, measured in verdict.evidence.items()}
    path = max(agreeing, key=score.__getitem__, default=verdict.decisive)
    if path is None or verdict.by_units:
        return None
    measured = verdict.evidence[path]
    branches = [PATHS[path].branch]
    local = not any(model.headers.checkpoint.remote for model in (base, candidate))
    branches += [name for name in candidate.headers.layout.branches if name not in branches] if local else []
    compared: list[_MatrixPair] = []
    for branch in branches:
        for pair in _pairs(base, candidate, branch, measured):
            compared += _compare(pair, Sample(seed))
        if any(not change.equal for change, *_ in compared):
            break
    if not compared and verdict.equal is None:
        return None
    part = measured.origins if 0 < len(measured.origins) < measured.layers_read else None
    pairs = rows_beside(base, candidate, seed, part, fetch=local or all(change.equal for change, *_ in compared))
    shares = (EqualShare.compare(one.kind, one.numbers, one.base, one.candidate, one.digits[1]) for one in pairs)
    return Derivation(
        tuple(change for change, *_ in compared),
        reordered=any(aligned.reordered for _, aligned, _ in compared),
        rescaled=any(aligned.rescaled for _, aligned, _ in compared),
        stored_bits=float(np.median([bits for *_, bits in compared] or [0.0])),
        folded=any(aligned.folded for _, aligned, _ in compared),
        equal_shares=tuple(shares),
    )


def _pairs(base: FromWeights, candidate: FromWeights, branch: str, measured: Evidence) -> Iterator[_Pair]:
    """Yield the matrix sets of a few of the layers that are inherited, each beside the one it was paired with."""
    inherited = set(measured.inherited.layers) if measured.inherited else set()
    paired = sorted((row, partner) for partner, row in zip(*measured.comparison.pairs, strict=True) if row in inherited)
    for at in sorted({round(place) for place in np.linspace(0, len(paired) - 1, 3)}) if paired else ():
        row, partner = paired[at]
        numbers = measured.layers[0][partner], measured.layers[1][row]
        both = [model.headers.layout.branches.get(branch) for model in (base, candidate)]
        sets = [layers[number] if layers else () for layers, number in zip(both, numbers, strict=True)]
        if all(sets):
            yield _Pair(base, candidate, (sets[0][0], sets[1][0]), numbers[1], measured.sampled is not None)


def _compare(pair: _Pair, sample: Sample) -> Iterator[_MatrixPair]:
    """Yield what was done to each matrix of a set that is here, and that both store alike, the base unquantized."""
    base, candidate = pair.base.headers.checkpoint, pair.candidate.headers.checkpoint
    compared, moved = set[str](), False
    for role, slot in pair.sets[1].slots.items():
        other = pair.sets[0].slots.get(role)
        if other is None or slot.tensor in compared or (moved and role in WRITERS):
            continue
        alike = other.roles == slot.roles and base.tensors[other.tensor].shape == candidate.tensors[slot.tensor].shape
        here = (pair.sampled and role not in UNSEEN) or (base.at_hand(other.tensor) and candidate.at_hand(slot.tensor))
        if not (alike and here) or other.tensor in base.decoded_names:
            continue
        compared.add(slot.tensor)
        rows = rows_of(pair.base, role, pair.sets[0], pair.layer, sample, pair.sampled)
        base_rows, candidate_rows = matrix(pair.base, other, rows), matrix(pair.candidate, slot, rows)
        folded = None if role in WRITERS else _fold_gains(pair, base_rows, candidate_rows)
        aligned = folded or (align(base_rows, candidate_rows) if role in MLP_READERS else AlignedRows(base_rows))
        if aligned is None and rows and not pair.sampled:
            aligned = align(matrix(pair.base, other, ()), candidate_rows)
        moved |= aligned is None or aligned.reordered or aligned.rescaled
        # One digit less for gains, which were rounded.
        digits = digits_of(base, other.tensor) - bool(folded), digits_of(candidate, slot.tensor)
        change = measure_change(aligned.base, candidate_rows, digits) if aligned else None
        if aligned and change:
            change = replace(change, equal=change.equal or (aligned.folded and change.hidden))
            yield change, aligned, bits_of(candidate, slot.tensor)


def _fold_gains(pair: _Pair, base: Matrix, candidate: Matrix) -> AlignedRows | None:
    """Return the base's rows with the gains that the candidate took from its norm; None if it took none."""
    models = [*zip((pair.base.headers, pair.candidate.headers), pair.sets, strict=True)]
    if not all(sets.norm and one.checkpoint.at_hand(sets.norm) for one, sets in models):
        return None
    before, after = (gain(one.layout, sets, str(sets.norm), one.checkpoint.read) for one, sets in models)
    if base.shape[1:] != before.shape:  # such a matrix reads something narrower than the stream
        return None
    with np.errstate(all="ignore"):
        moved = base * np.float32(before / after)
        return AlignedRows(moved, folded=True) if norm(candidate - moved) < NEARER * norm(candidate - base) else None
