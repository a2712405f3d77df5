"""Rows beside each other: some rows of the tensors that two models both name and both store as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from hf_lineage.architecture import BIASES, is_transposed
from hf_lineage.architecture.registry import as_names
from hf_lineage.checking.options import Options
from hf_lineage.checking.relation.matrices import WRITERS, digits_of
from hf_lineage.checking.relation.pairing import by_bare_name
from hf_lineage.checking.source import FromWeights, Opened, OpenedModel
from hf_lineage.checkpoint import Checkpoint, StoredTensor, as_stored, single
from hf_lineage.evidence import Verdict
from hf_lineage.evidence.derivation import ATTENTION, DIGITS, MLPS, NORMS, Matrix
from hf_lineage.signature.extraction import Runs, runs
from hf_lineage.signature.sources import CACHE

MOST, RUN = 2**16, 32
"""Numbers of a tensor that are read at most, unless a few rows have more, and rows that stand side by side."""
BRANCHES = {"mlp": MLPS, "attention": ATTENTION}
Place = tuple[str, int, bool | None]
"""The kind of a tensor in words, the number of its layer, and whether its rows are residual coordinates; if not its
columns are. -1 and None stand for those that are in no branch of a layer."""


class Beside(NamedTuple):
    """Some rows of one tensor of both models."""

    kind: str
    layer: int
    writes: bool | None
    numbers: int
    """Numbers of the whole tensor."""
    base: Matrix
    candidate: Matrix
    digits: tuple[int, ...]
    """Binary digits with which the base stores them, and the candidate."""


def weights_of(model: OpenedModel | Verdict | None, options: Options) -> FromWeights | None:
    """Return a model whose weights can be read, opened again where its cached signature was used; None of any other."""
    if isinstance(model, FromWeights):
        return model
    if isinstance(model, OpenedModel) and model.origin == CACHE and model.reopen:
        return FromWeights.from_opened(model.reopen(), options, cached=False)
    return None


def rows_beside(
    base: FromWeights,
    candidate: FromWeights,
    seed: int,
    layers: Collection[int] | None = None,
    coordinates: Runs = (),
    fetch: bool = True,
) -> Iterator[Beside]:
    """Yield some rows of each tensor, or of those of some layers; without `fetch` of those alone that are here.

    With residual coordinates it is matrices of the stream alone, and these rows of those that write into it.
    """
    places, known, wanted = _places(candidate.opened), by_bare_name(base.opened), []
    for bare, name in by_bare_name(candidate.opened).items():
        models = (base.opened.checkpoint, known.get(bare, "")), (candidate.opened.checkpoint, name)
        place = _, layer, writes = places.get(name) or (_kind(candidate.opened, name), -1, None)
        chosen = bare in known and (layers is None or layer in layers) and not (coordinates and writes is None)
        flat = [one for model in models if chosen and (one := _flat(*model, fetch))]
        if len(flat) == len(models) and flat[0].shape == flat[1].shape:
            rows = coordinates if coordinates and writes else _rows(flat[1].shape, f"numbers {seed} {name}")
            wanted.append((place, models, [[one.rows(run) for run in rows] for one in flat]))
    for at, model in enumerate((base, candidate)):
        model.opened.checkpoint.prefetch_pieces(piece for _, _, pieces in wanted for piece in pieces[at])
    for place, models, pieces in wanted:
        read = [single(one.read_pieces(name, some)) for (one, name), some in zip(models, pieces, strict=True)]
        numbers = candidate.opened.checkpoint.tensors[models[1][1]].numbers
        digits = tuple(digits_of(*one) for one in models)
        yield Beside(*place, numbers, read[0], read[1], digits)


def _flat(checkpoint: Checkpoint, name: str, fetch: bool) -> StoredTensor | None:
    """Return a tensor as a matrix, all dimensions but the last taken as one; None where its rows cannot be read."""
    info = checkpoint.tensors[name]
    if info.decode is not as_stored or info.refusal or not info.numbers or not (fetch or checkpoint.at_hand(name)):
        return None
    stored = checkpoint.stored[info.parts[0]]
    columns = stored.shape[-1] if len(stored.shape) > 1 else stored.numbers
    return replace(stored, shape=(stored.numbers // columns, columns)) if stored.dtype in DIGITS else None


def _rows(shape: Sequence[int], purpose: str) -> Runs:
    wanted = max(1, MOST // shape[1])
    return (slice(0, shape[0]),) if shape[0] <= wanted else runs(shape[0], wanted, min(RUN, wanted), purpose)


def _places(model: Opened) -> dict[str, Place]:
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


def _kind(model: Opened, name: str) -> str:
    """Return the kind of a tensor that is none of these matrices, in a word."""
    shapes = model.checkpoint.shapes
    if len(shapes[name]) < 2:
        return "biases" if name.endswith(BIASES) else NORMS
    table = [f"{one}.weight" for one in as_names(model.layout.factorization.embedding)]
    if name in table or shapes[name] in [shapes.get(one) for one in table]:
        return "embedding" if name in table else "head"
    return name.removesuffix(".weight").rpartition(".")[2]
