"""Read units: the hidden units of some layers, of all experts together, seen through a matrix, layer by layer."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from hf_lineage.architecture.layout import Layout
from hf_lineage.checkpoint import Checkpoint
from hf_lineage.signature.branches import tensors, terms
from hf_lineage.signature.kept_units import Keep, Numbers, everything, experts_of
from hf_lineage.signature.parallel import Share, workers
from hf_lineage.signature.recipe import Array, Vector
from hf_lineage.signature.residual import Probes, written
from hf_lineage.signature.survey import survey
from hf_lineage.signature.term import Term, row_norms
from hf_lineage.signature.token_frame import LIGHT, PATH, RECIPE
from hf_lineage.signature.unit_rows import UnitRows


def unit_rows(
    checkpoint: Checkpoint, layout: Layout, layers: Collection[int], through: Array, keep: Keep = everything
) -> dict[int, UnitRows]:
    """Return the hidden units of those of these layers that have an MLP, seen through a matrix (s, d).

    Of a layer with experts only those are held in memory that are kept. Raise as `Checkpoint.read` does.
    """
    numbers = [number for number in layout.numbers(PATH) if number in layers]
    rows: dict[int, UnitRows] = {}
    with workers() as share:
        for number in numbers:
            checkpoint.prefetch(*tensors(layout, PATH, number, RECIPE))
            branch = list(terms(layout, PATH, number, RECIPE, functools.cache(checkpoint.read)))
            experts = experts_of(layout.sets(PATH)[number])
            rows[number] = _layer(branch, experts, _View(through, share, keep))
    return rows


@dataclass(frozen=True)
class _View:
    """How the units of a layer are seen."""

    through: Array
    share: Share
    keep: Keep


def _layer(branch: Sequence[Term], experts: Sequence[Sequence[int]], view: _View) -> UnitRows:
    """The kept hidden units of a layer, each over the norm of its whole row."""
    measured = [survey(term, Probes.of(LIGHT, term.reader.shape[1]), view.share) for term in branch]
    weight = np.concatenate([units.norm for units in measured])
    sizes = [size for own in experts for size in own]
    parts = [weight[start:stop] for start, stop in pairwise(accumulate(sizes, initial=0))]
    kept = view.keep(parts) if len(parts) > 1 else everything(parts)
    seen, first = list[tuple[Array, Array, Vector]](), 0
    for term, own in zip(branch, experts, strict=True):
        starts = accumulate(own[:-1], initial=0)
        places = [part + start for part, start in zip(kept[first : first + len(own)], starts, strict=True)]
        seen.append(_seen(term, np.concatenate(places), view))
        first += len(own)
    inner, outer = (np.concatenate([one[side] for one in seen]) for side in range(2))
    norms = np.concatenate([one[2] for one in seen], axis=1)
    chosen = np.concatenate([part[places] for part, places in zip(parts, kept, strict=True)])
    writes = written(list(zip(branch, measured, strict=True)), float(weight.sum()), _size(weight))
    counts = tuple(map(len, kept)) if len(parts) > 1 else ()
    return UnitRows(inner, outer, chosen, norms, writes, counts, len(chosen) / max(len(weight), 1))


def _seen(term: Term, kept: Numbers, view: _View) -> tuple[Array, Array, Vector]:
    """What the kept units of a term read and write, (u, s) each, and the norms of both, (2, u)."""
    places = np.full(len(term.reader), -1)
    places[kept] = np.arange(len(kept))
    inner, outer = (np.empty((len(kept), len(view.through)), np.float32) for _ in range(2))
    sizes = np.empty((2, len(kept)))

    def note(starts: Iterator[int]) -> None:
        for tile in term.tiles(starts):
            here = places[tile.units]
            mine = here >= 0
            for side, (seen, rows) in enumerate(((inner, tile.inn), (outer, tile.out))):
                chosen = np.asarray(rows) if mine.all() else np.asarray(rows)[mine]
                norms = row_norms(chosen)
                over = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
                seen[here[mine]] = (chosen @ view.through.T) * over[:, None]
                sizes[side, here[mine]] = norms

    view.share(note, term.starts)
    return inner, outer, sizes


def _size(weight: Vector) -> float:
    """About ‖M‖_F of a branch whose units have these norms."""
    return float(np.sqrt(np.sum(weight**2)))
