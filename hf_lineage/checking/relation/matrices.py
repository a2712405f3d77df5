"""Matrices: some rows of the matrices of a model as numbers, and with how many digits they are stored."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hf_lineage.architecture import LayerSet, is_transposed
from hf_lineage.architecture.registry import Slot
from hf_lineage.checking.source import FromWeights, Opened, OpenedModel
from hf_lineage.checkpoint import Checkpoint, single
from hf_lineage.errors import printable
from hf_lineage.evidence import Verdict
from hf_lineage.evidence.derivation import DIGITS, Matrix
from hf_lineage.signature.extraction import Runs, Sample, runs

RUNS = 2
"""Runs of a sample's rows that are compared of each matrix."""
STACKED = 3
"""Dimensions of a tensor of stacked experts."""
UNSEEN = ("query", "key")
"""Roles of which a sample reads nothing."""
ROWS = 128
"""Rows of other matrices that are compared, as many as share a scale at most."""
LARGE = 2**20
"""Numbers of a matrix from which on only these rows are compared."""
WRITERS = ("down", "output")
"""Roles whose columns are hidden units; the rows of MLP_READERS are."""


def rows_of(model: FromWeights, role: str, layer_set: LayerSet, layer: int, sample: Sample, sampled: bool) -> Runs:
    """Return the rows of a large matrix that are compared; none stands for all.

    `sampled` says that no more than a sample of the layer is on this disk.
    """
    slot, checkpoint = layer_set.slots[role], model.opened.checkpoint
    count, *_ = shape = checkpoint.tensors[slot.tensor].shape
    if checkpoint.rows(slot.tensor) is None or _turned(model, slot):
        return ()
    if not sampled:
        return () if math.prod(shape) <= LARGE else runs(count, ROWS, ROWS, f"rows {sample.seed} {layer}")
    if role in WRITERS:
        return sample.coordinates_of(count)
    size = layer_set.heads[role].size
    return tuple(slice(run.start * size, run.stop * size) for run in sample.units_of(layer_set, layer)[:RUNS])


def matrix(model: FromWeights, slot: Slot, rows: Runs) -> Matrix:
    """Return some rows of a matrix (out, in), or all of it; of stacked experts the first."""
    checkpoint = model.opened.checkpoint
    stored = checkpoint.rows(slot.tensor) if rows and not _turned(model, slot) else None
    if stored is not None:
        return single(checkpoint.read_pieces(slot.tensor, [stored.tensor.rows(run) for run in rows]))
    whole = checkpoint.read(slot.tensor)
    whole = single(whole[0] if whole.ndim == STACKED else whole)
    numbers = whole.reshape(len(whole), -1)
    numbers = numbers.T if _turned(model, slot) else numbers
    return np.concatenate([numbers[run] for run in rows]) if rows else numbers


def digits_of(checkpoint: Checkpoint, name: str) -> int:
    """Return the binary digits with which a tensor is stored, those of float32 where it is decoded."""
    (first, *_) = checkpoint.tensors[name].parts
    return DIGITS["F32"] if name in checkpoint.decoded else DIGITS.get(checkpoint.stored[first].dtype, DIGITS["F32"])


def bits_of(checkpoint: Checkpoint, name: str) -> float:
    """Return bits a weight with which a quantized tensor is stored, its scales included; 0 for any other.

    A tensor whose rows were only moved, as GGUF moves those of queries and keys, is decoded and not quantized.
    """
    parts = checkpoint.parts([name]).values()
    plain = name not in checkpoint.decoded or all(part.dtype in DIGITS for part in parts)
    return 0.0 if plain else 8 * sum(part.size for part in parts) / checkpoint.tensors[name].numbers


def name_broken(outcome: Verdict, models: Sequence[OpenedModel]) -> Verdict:
    """Return a verdict that names the first tensor of each model by which a layer is not finite, if there is one."""
    broken = [{path: one.not_finite[side] for path, one in outcome.evidence.items()} for side in range(len(models))]
    pairs = [(model, layers) for model, layers in zip(models, broken, strict=True) if any(layers.values())]
    found = [next(_broken(model.reopen(), layers), "") for model, layers in pairs if model.reopen]
    return replace(outcome, reason="; ".join(filter(None, (outcome.reason, *found))))


def _broken(opened: Opened, layers: Mapping[str, Sequence[int]]) -> Iterator[str]:
    for layer_set in (one for path, row in layers.items() for at in row for one in opened.layout.sets(path)[at]):
        for name in layer_set.tensors:
            numbers = opened.checkpoint.read(name)
            if lost := numbers.size - np.count_nonzero(np.isfinite(numbers)):
                yield f"{lost} of the {numbers.size} numbers of {printable(name, 200)} are not finite"


def _turned(model: FromWeights, slot: Slot) -> bool:
    return is_transposed(model.opened.layout.factorization, slot)
