"""Rows: some rows of the matrices of a model as numbers, by themselves or beside those of another model."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hf_lineage.architecture.layers import BIASES, STACKED, LayerSet
from hf_lineage.architecture.layout import is_transposed
from hf_lineage.architecture.registry import Slot
from hf_lineage.architecture.schema import as_names
from hf_lineage.checkpoint.local import Checkpoint
from hf_lineage.checkpoint.rounding import DIGITS, Matrix
from hf_lineage.checkpoint.tensor import StoredTensor, as_stored, single
from hf_lineage.errors import printable
from hf_lineage.evidence.relation import ATTENTION, MLPS, NORMS
from hf_lineage.evidence.verdict import Verdict
from hf_lineage.signature.sample import Runs, Sample, runs
from hf_lineage.signature.values import CACHE
from hf_lineage.source.differences import by_bare_name
from hf_lineage.source.headers import Headers
from hf_lineage.source.model import FromWeights, OpenedModel
from hf_lineage.source.options import Options

RUNS = 2  # Runs of a sample's rows that are compared of each matrix
UNSEEN = ("query", "key")  # Roles of which a sample reads nothing
ROWS = 128  # Rows of other matrices that are compared, as many as share a scale at most
LARGE = 2**20  # Numbers of a matrix from which on only these rows are compared
WRITERS = ("down", "output")  # Roles whose columns are hidden units; the rows of MLP_READERS are
MOST, RUN = 2**16, 32  # Numbers that are read of a tensor unless few rows have more, and rows side by side
BRANCHES = {"mlp": MLPS, "attention": ATTENTION}
Place = tuple[str, int, bool | None]  # Kind, layer, and whether rows (not columns) are of the stream; None: no branch


def rows_of(model: FromWeights, role: str, layer_set: LayerSet, layer: int, sample: Sample, sampled: bool) -> Runs:
    """Return the rows of a large matrix that are compared, none for all; if `sampled`, a sample is here."""
    slot, checkpoint = layer_set.slots[role], model.headers.checkpoint
    count, *_ = shape = checkpoint.tensors[slot.tensor].shape
    if checkpoint.rows(slot.tensor) is None or _is_transposed(model, slot):
        return ()
    if not sampled:
        return () if math.prod(shape) <= LARGE else runs(count, ROWS, ROWS, f"rows {sample.seed} {layer}")
    if role in WRITERS:
        return sample.coordinates_of(count)
    size = layer_set.heads[role].size
    return tuple(slice(run.start * size, run.stop * size) for run in sample.units_of(layer_set, layer)[:RUNS])


def matrix(model: FromWeights, slot: Slot, rows: Runs) -> Matrix:
    """Return some rows of a matrix (out, in), or all of it; of stacked experts the first."""
    checkpoint = model.headers.checkpoint
    stored = checkpoint.rows(slot.tensor) if rows and not _is_transposed(model, slot) else None
    if stored is not None:
        return single(checkpoint.read_pieces(slot.tensor, [stored.tensor.rows(run) for run in rows]))
    whole = checkpoint.read(slot.tensor)
    whole = single(whole[0] if whole.ndim == STACKED else whole)
    numbers = whole.reshape(len(whole), -1)
    numbers = numbers.T if _is_transposed(model, slot) else numbers
    return np.concatenate([numbers[run] for run in rows]) if rows else numbers


def digits_of(checkpoint: Checkpoint, name: str) -> int:
    """Return the binary digits with which a tensor is stored, those of float32 where it is decoded."""
    dtype = "" if name in checkpoint.decoded_names else checkpoint.stored[checkpoint.tensors[name].parts[0]].dtype
    return DIGITS.get(dtype, DIGITS["F32"])


def bits_of(checkpoint: Checkpoint, name: str) -> float:
    """Return bits a weight with which a tensor is stored, its scales included; 0 where none is decoded from codes."""
    parts = checkpoint.parts([name]).values()
    if name not in checkpoint.decoded_names or {part.dtype for part in parts} <= DIGITS.keys():
        return 0.0
    return 8 * sum(part.size for part in parts) / checkpoint.tensors[name].numbers


def name_broken(outcome: Verdict, models: Sequence[OpenedModel]) -> Verdict:
    """Return a verdict that names the first tensor of each model by which a layer is not finite, if there is one."""
    reasons = [outcome.reason] if outcome.reason else []
    for side, model in enumerate(models):
        broken = [(path, at) for path, one in outcome.evidence.items() for at in one.not_finite[side]]
        if broken and (opened := model.reopen and model.reopen()):
            sets = (one for path, at in broken for one in opened.layout.sets(path)[at])
            for name in (name for layer_set in sets for name in layer_set.tensors):
                numbers = opened.checkpoint.read(name)
                if lost := numbers.size - np.count_nonzero(np.isfinite(numbers)):
                    reasons.append(f"{lost} of the {numbers.size} numbers of {printable(name, 200)} are not finite")
                    break
    return replace(outcome, reason="; ".join(reasons))


def _is_transposed(model: FromWeights, slot: Slot) -> bool:
    return is_transposed(model.headers.layout.factorization, slot)


class RowPair(NamedTuple):
    """Some rows of one tensor of both models."""

    kind: str
    layer: int
    writes: bool | None
    numbers: int  # Numbers of the whole tensor
    base: Matrix
    candidate: Matrix
    digits: tuple[int, ...]  # Binary digits with which the base stores them, and the candidate


def weights_of(model: OpenedModel | Verdict | None, options: Options) -> FromWeights | None:
    """Return a model whose weights can be read, opened again where its cached signature was used; None of any other."""
    if isinstance(model, FromWeights):
        return model
    if isinstance(model, OpenedModel) and model.origin == CACHE and model.reopen:
        return FromWeights.from_opened(model.reopen(), options, cached=False)
    return None


def rows_beside(
    base: FromWeights, candidate: FromWeights, seed: int, layers: Collection[int] | None = None,
    coordinates: Runs = (), fetch: bool = True,
) -> Iterator[RowPair]:  # fmt: skip
    """Yield rows of each tensor, or in some layers; residual coordinates are those of what writes into the stream."""
    places, known, wanted = _places(candidate.headers), by_bare_name(base.headers), []
    for bare, name in by_bare_name(candidate.headers).items():
        models = (base.headers.checkpoint, known.get(bare, "")), (candidate.headers.checkpoint, name)
        place = _, layer, writes = places.get(name) or (_kind(candidate.headers, name), -1, None)
        chosen = bare in known and (layers is None or layer in layers) and not (coordinates and writes is None)
        flat = [one for model in models if chosen and (one := _flat(*model, fetch))]
        if len(flat) == len(models) and flat[0].shape == flat[1].shape:
            height, most = flat[1].shape[0], max(1, MOST // flat[1].shape[1])
            some = (height, most, min(RUN, most), f"numbers {seed} {name}")
            every = (slice(0, height),) if height <= most else runs(*some)
            rows = coordinates if coordinates and writes else every
            wanted.append((place, models, [[one.rows(run) for run in rows] for one in flat]))
    for at, model in enumerate((base, candidate)):
        model.headers.checkpoint.prefetch_pieces(piece for _, _, pieces in wanted for piece in pieces[at])
    for place, models, pieces in wanted:
        read = [single(one.read_pieces(name, some)) for (one, name), some in zip(models, pieces, strict=True)]
        numbers = candidate.headers.checkpoint.tensors[models[1][1]].numbers
        digits = tuple(digits_of(*one) for one in models)
        yield RowPair(*place, numbers, read[0], read[1], digits)


def _flat(checkpoint: Checkpoint, name: str, fetch: bool) -> StoredTensor | None:
    """Return a tensor as a matrix, all dimensions but the last taken as one; None where its rows cannot be read."""
    info = checkpoint.tensors[name]
    if info.decode is not as_stored or info.refusal or not info.numbers or not (fetch or checkpoint.at_hand(name)):
        return None
    stored = checkpoint.stored[info.parts[0]]
    columns = stored.shape[-1] if len(stored.shape) > 1 else stored.numbers
    return replace(stored, shape=(stored.numbers // columns, columns)) if stored.dtype in DIGITS else None


def _places(model: Headers) -> dict[str, Place]:
    """Return the places of the matrices, norms and biases of all branches, by their names."""
    layout, places = model.layout, dict[str, Place]()
    layers = ((branch, *layer) for branch, sets in layout.branches.items() for layer in enumerate(sets))
    for branch, number, one in ((branch, number, one) for branch, number, sets in layers for one in sets):
        places |= {name: (_kind(model, name), number, None) for name in (*one.tensors, *one.biases.values())}
        for role, slot in one.slots.items():
            writes = (role in WRITERS) is not is_transposed(layout.factorization, slot)
            shape = model.checkpoint.tensors[slot.tensor].shape
            known = not slot.latent and len(shape) == 2 and shape[0 if writes else 1] == one.width
            places[slot.tensor] = BRANCHES.get(branch, branch), number, writes if known else None
    return places


def _kind(model: Headers, name: str) -> str:
    """Return the kind of a tensor that is none of these matrices, in a word."""
    shapes = model.checkpoint.shapes
    if len(shapes[name]) < 2:
        return "biases" if name.endswith(BIASES) else NORMS
    table = [f"{one}.weight" for one in as_names(model.layout.factorization.embedding)]
    if name in table or shapes[name] in [shapes.get(one) for one in table]:
        return "embedding" if name in table else "head"
    return name.removesuffix(".weight").rpartition(".")[2]
